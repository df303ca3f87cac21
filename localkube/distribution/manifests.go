package distribution

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/localkube/process"
)

// lookEvery is how often manifests are looked at.
const lookEvery = 5 * time.Second

// followManifests applies the files under server/manifests, and their changes, until the context
// ends. Objects that are removed from an existing file are deleted; a file that could not be
// applied is tried again.
func (m *machine) followManifests(ctx context.Context) {
	applied, said := map[string]string{}, ""
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		found, err := manifests(filepath.Join(m.DataDir, "server", "manifests"))
		for name, content := range found {
			// an empty file deletes the objects that it had before this process started
			if was, known := applied[name]; known && was == content {
				continue
			}
			if failed := m.apply(ctx, name, content); failed != nil {
				err = errors.Join(err, failed)
				continue
			}
			applied[name] = content
			m.say("applied %s", name)
		}
		if err != nil && err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			m.say("%s", said)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// manifests are the YAML files below a folder, which need not be there, by their path in it.
func manifests(folder string) (map[string]string, error) {
	found := map[string]string{}
	root, err := os.OpenRoot(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	files := root.FS()
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) {
			return err
		}
		content, err := fs.ReadFile(files, name)
		found[name] = string(content)
		return err
	})
	if err = errors.Join(err, root.Close()); err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	return found, nil
}

// apply makes the existing objects match a file. They are an ApplySet of kubectl, whose parent is a
// Secret; an object of ours keeps the set from being empty, which kubectl rejects. kubectl's cache
// is in the data directory, because a service of systemd has no HOME.
func (m *machine) apply(ctx context.Context, name, content string) error {
	set := "manifest-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(strings.TrimSuffix(name, path.Ext(name))))
	cmd := exec.CommandContext(ctx, process.Self, "kubectl", "--kubeconfig", m.Kubeconfig, "--namespace", "default", "apply", "--server-side", "--force-conflicts",
		"--prune", "--applyset=secrets/"+set, "--filename", "-", "--cache-dir", filepath.Join(m.DataDir, "server", "cache"))
	cmd.Env = append(cmd.Environ(), "KUBECTL_APPLYSET=true")
	cmd.Stdin = strings.NewReader(content + "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + set + "}\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("applying %s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}
