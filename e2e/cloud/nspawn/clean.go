package nspawn

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// DestroyAll removes every server that has a directory.
func (b *Backend) DestroyAll(ctx context.Context) error {
	names, err := b.Names()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, b.Destroy(ctx, name))
	}
	return errors.Join(append(errs, os.RemoveAll(b.opts.Dir))...)
}

// Leftovers describes what this machine still has of the servers.
func (b *Backend) Leftovers() []string {
	names, err := b.Names()
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	for _, name := range names {
		left = append(left, "directory "+string(b.dir(name)))
		if isMounted(b.dir(name).root()) {
			left = append(left, "mount "+b.dir(name).root())
		}
		groups, err := findCgroups(name)
		if err != nil {
			left = append(left, err.Error())
			continue
		}
		for _, pid := range groups.processes() {
			left = append(left, fmt.Sprintf("process %d of %s", pid, name))
		}
	}
	return left
}
