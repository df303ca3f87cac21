package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/api/plan"
)

// installer is an image whose run.sh shows a file of a folder, and counts its runs there.
type installer struct {
	// half is called when it is half unpacked.
	half func() error
}

func (i installer) Unpack(_ context.Context, _, folder string) error {
	half, err := os.OpenFile(filepath.Join(folder, "half"), os.O_CREATE|os.O_EXCL, 0o600) // into an empty folder only
	if err == nil {
		err = half.Close()
	}
	if err == nil && i.half != nil {
		err = i.half()
	}
	return errors.Join(err, os.WriteFile(filepath.Join(folder, "run.sh"), []byte("#!/bin/sh\ncat $1/etc/a; echo x >> $1/ran-first\n"), 0o700))
}

// TestRunner: what runs, and what is left of it.
func TestRunner(t *testing.T) {
	place := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(place, "etc"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(place, "etc/a"), []byte("a\n"), 0o600))
	r := &Runner{Work: t.TempDir(), Env: os.Environ, Images: installer{}, Log: logr.Discard()}
	folder := filepath.Join(r.Work, "id")
	for name, tt := range map[string]struct {
		command plan.Command
		want    string
	}{
		"what the image has":           {plan.Command{Image: "installer", Args: []string{place}}, "a\n"},
		"a program of the image":       {plan.Command{Image: "installer", Command: "run.sh", Args: []string{place}}, "a\n"},
		"a script":                     {plan.Command{Script: "echo $2 $1", Args: []string{"a", "b"}}, "b a\n"},
		"a script with an interpreter": {plan.Command{Script: "#!/bin/echo", Args: []string{"a", "b"}}, filepath.Join(folder, "script.sh") + " a b\n"},
		"its own folder":               {plan.Command{Command: "pwd"}, folder + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, keep := range []bool{true, false} {
				r.KeepWork = keep
				result, err := r.run(t.Context(), "id", tt.command, 1)
				require.NoError(t, err)
				require.Equal(t, tt.want, string(result.stdout))
				if keep {
					require.NoError(t, r.clear())
					require.DirExists(t, folder)
				}
			}
			require.NoDirExists(t, folder)
		})
	}
}
