package testbed

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// Down stops everything and removes every trace but CacheDir; it is safe when nothing runs. Of a part that could not be
// stopped the files stay, for the next try needs them, and so does what is not the testbed's.
func (t *Testbed) Down(ctx context.Context) error {
	var kubeErr, cloudErr error
	if exists(t.kubeDir()) {
		_, kubeErr = t.run(ctx, "localkube", "down", "--data-dir", t.kubeDir())
	}
	if exists(t.CloudDir()) {
		_, cloudErr = t.run(ctx, "localcloud", "clean", "--state-dir", t.CloudDir())
	}
	remove := []string{t.shimDir()}
	if kubeErr == nil {
		remove = append(remove, t.kubeDir(), t.Kubeconfig())
	}
	if cloudErr == nil {
		remove = append(remove, t.CloudDir())
	}
	if kubeErr == nil && cloudErr == nil {
		remove = append(remove, filepath.Join(t.StateDir, logsDir))
	}
	errs := []error{kubeErr, cloudErr}
	for _, path := range remove {
		errs = append(errs, os.RemoveAll(path))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return t.tidyStateDir()
}

// tidyStateDir removes the directory when it is empty and tells what keeps it.
func (t *Testbed) tidyStateDir() error {
	entries, err := os.ReadDir(t.StateDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		if path := filepath.Join(t.StateDir, entry.Name()); path != t.CacheDir {
			t.say("  left in place, for it is not the testbed's: %s\n", t.readable(path))
		}
	}
	if err == nil && len(entries) == 0 {
		err = os.Remove(t.StateDir)
	}
	return err
}
