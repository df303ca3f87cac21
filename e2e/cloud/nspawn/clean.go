package nspawn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// DestroyAll removes every server that has a directory. What could not be
// removed keeps its directory, for the next try to find it.
func (b *Backend) DestroyAll(ctx context.Context) error {
	names, strangers, err := b.entries()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, b.Destroy(ctx, name))
	}
	for _, name := range strangers {
		errs = append(errs, fmt.Errorf("removing servers: %s is none", filepath.Join(b.opts.Dir, name)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := os.Remove(b.opts.Dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing servers' directory: %w", err)
	}
	return nil
}

// Leftovers describes what this machine still has of the servers.
func (b *Backend) Leftovers() []string {
	names, strangers, err := b.entries()
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	for _, name := range names {
		left = append(left, b.leftOf(name)...)
	}
	for _, name := range strangers {
		left = append(left, "stranger "+filepath.Join(b.opts.Dir, name))
	}
	return left
}

func (b *Backend) leftOf(name string) []string {
	left := []string{"directory " + string(b.dir(name))}
	if isMounted(b.dir(name).root()) {
		left = append(left, "mount "+b.dir(name).root())
	}
	if _, err := net.InterfaceByName(cable(name)); err == nil {
		left = append(left, "interface "+cable(name))
	}
	groups, err := b.host.cgroups(name)
	if err != nil {
		return append(left, err.Error())
	}
	for _, pid := range groups.processes() {
		left = append(left, fmt.Sprintf("process %d of %s", pid, name))
	}
	return left
}
