package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/host"
	"github.com/drover-project/drover/e2e/cloud/nspawn"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// prepareHost makes the network, the root file system and the backend.
func (c *Cloud) prepareHost(ctx context.Context) (err error) {
	// It must be there before anything listens on it.
	if c.opts.Backend == BackendNspawn || c.opts.Bind == host.Gateway {
		if c.host, err = host.Open(ctx, c.state.dir); err != nil {
			return err
		}
	}
	c.network = &account.Network{
		Public: netip.MustParsePrefix(publicRange), Private: netip.MustParsePrefix(privateRange),
		Gateway: netip.MustParseAddr(host.Gateway),
	}
	if c.opts.Backend == BackendInstant {
		c.backend = server.NewInstant()
		return nil
	}
	c.network.Public, c.network.Private = host.PublicRange(c.slot()), host.PrivateRange(c.slot())
	image, err := nspawn.BuildImage(ctx, nspawn.ImageOptions{Dir: c.opts.RootFSDir, Progress: c.opts.Progress})
	if err != nil {
		return err
	}
	c.real, err = nspawn.New(nspawn.Options{Dir: c.state.path("servers"), Image: image, Gateway: c.network.Gateway})
	c.backend = c.real
	return err
}

func (c *Cloud) slot() int {
	if c.host == nil {
		return 0
	}
	return c.host.Slot()
}

func (c *Cloud) restoreHost(ctx context.Context) error {
	if c.host == nil {
		return nil
	}
	if c.opts.Keep {
		return c.host.Suspend()
	}
	if c.real != nil {
		if err := c.real.DestroyAll(ctx); err != nil {
			return errors.Join(err, c.host.Suspend())
		}
	}
	return c.host.Close(ctx)
}

func (c *Cloud) hostKey(name string) string {
	if c.real == nil {
		return ""
	}
	return c.real.HostKey(name)
}

// Clean removes every trace of the cloud of a state directory: its servers,
// its part in the host's network, and the directory. No process may use it.
func Clean(ctx context.Context, stateDir string) error {
	if err := checkOurs(stateDir); err != nil {
		return err
	}
	state, err := openState(stateDir)
	if err != nil {
		return err
	}
	backend, err := nspawn.New(nspawn.Options{Dir: state.path("servers")})
	if err != nil {
		return errors.Join(err, state.close())
	}
	if err := backend.DestroyAll(ctx); err != nil {
		return errors.Join(err, state.close())
	}
	if os.Geteuid() == 0 {
		if err := host.Release(ctx, state.dir); err != nil {
			return errors.Join(err, state.close())
		}
	}
	return errors.Join(removeState(state), state.close())
}

// checkOurs refuses a directory with things in it where no cloud ever was: every
// cloud leaves its lock.
func checkOurs(dir string) error {
	if dir == "" {
		return errors.New("cleaning state: no directory was given")
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cleaning state: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "lock")); err != nil {
		return fmt.Errorf("cleaning state: %s is not the state directory of a local cloud: %w", dir, err)
	}
	return nil
}

// removeState removes only what is ours, lest a wrong path costs someone's files.
func removeState(state *stateDir) error {
	for _, name := range []string{"ledger.jsonl", "tokens.json", "ca.pem", "ca-key.pem", endpointsFile, "lock"} {
		if err := os.Remove(filepath.Join(state.dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing state: %w", err)
		}
	}
	if err := os.Remove(state.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing state directory: %w", err)
	}
	return nil
}
