package vcenter_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rancher/machine/drivers/vmwarevsphere"
	"github.com/rancher/machine/libmachine/drivers"
	rpcdriver "github.com/rancher/machine/libmachine/drivers/rpc"
	"github.com/rancher/machine/libmachine/mcnflag"
	"github.com/rancher/machine/libmachine/state"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/vcenter"
	"github.com/drover-project/drover/jobrunner/operation/isoimage"
)

const (
	username = "drover@vsphere.local"
	password = "marker-password"
)

// TestMain is also the mkisofs that the driver starts, as cmd/machine is in a Job.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != isoimage.Program {
		os.Exit(m.Run())
	}
	if err := isoimage.Command(os.Args[1:], time.Now()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func linkProgram(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(dir, isoimage.Program)))
	t.Setenv("PATH", dir)
}

func start(t *testing.T, guests vcenter.Guests) *vcenter.Simulator {
	t.Helper()
	s, err := vcenter.Start(t.Context(), vcenter.Options{Username: username, Password: password, Guests: guests, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// newDriver is the unmodified driver with the defaults of its flags and the given values.
func newDriver(t *testing.T, s *vcenter.Simulator, name string, values map[string]any) *vmwarevsphere.Driver {
	t.Helper()
	store := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(store, "machines", name), 0o700))
	d := vmwarevsphere.NewDriver(name, store).(*vmwarevsphere.Driver)
	flags := rpcdriver.RPCFlags{Values: map[string]any{"swarm-master": false, "swarm-host": "", "swarm-discovery": ""}}
	for _, flag := range d.GetCreateFlags() {
		flags.Values[flag.String()] = flag.Default()
		if _, isList := flag.(mcnflag.StringSliceFlag); isList {
			flags.Values[flag.String()] = []string{}
		}
	}
	host, port, err := net.SplitHostPort(s.Address())
	require.NoError(t, err)
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	for flag, value := range map[string]any{
		"vcenter": host, "vcenter-port": number, "username": username, "password": password, "creation-type": "template",
		"clone-from": vcenter.Template, "datastore": vcenter.Datastore, "network": []string{vcenter.Network}, "ssh-user": "ubuntu",
	} {
		flags.Values["vmwarevsphere-"+flag] = value
	}
	for flag, value := range values {
		flags.Values["vmwarevsphere-"+flag] = value
	}
	var options drivers.DriverOptions = flags
	require.NoError(t, d.SetConfigFromFlags(options))
	return d
}

func userData(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "user-data")
	require.NoError(t, os.WriteFile(file, []byte("#cloud-config\nruncmd: [touch /bootstrapped]\n"), 0o600))
	return file
}

func TestDriverMakesAndRemovesAMachine(t *testing.T) {
	linkProgram(t)
	t.Chdir(t.TempDir())
	for _, creation := range []string{"template", "vm"} {
		t.Run(creation, func(t *testing.T) {
			guests := &vcenter.Addresses{}
			s := start(t, guests)
			d := newDriver(t, s, "one", map[string]any{"cloud-config": userData(t), "creation-type": creation})
			require.NoError(t, d.PreCreateCheck())
			require.NoError(t, d.Create())

			status, err := d.GetState()
			require.NoError(t, err)
			require.Equal(t, state.Running, status)
			address, err := d.GetIP()
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(address, "198.18.250."), address)
			require.Regexp(t, `^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$`, d.MachineId)
			seed := guests.Seed("one")
			require.Contains(t, seed.UserData, "touch /bootstrapped")
			require.Contains(t, seed.UserData, "name: ubuntu")
			require.Equal(t, "local-hostname: one\n", seed.MetaData)
			require.Equal(t, []string{"one"}, names(t, s))

			require.NoError(t, d.Remove())
			require.Empty(t, names(t, s))
		})
	}
}

func names(t *testing.T, s *vcenter.Simulator) []string {
	t.Helper()
	machines, err := vcenter.List(t.Context(), s.Endpoint())
	require.NoError(t, err)
	var found []string
	for _, machine := range machines {
		found = append(found, machine.Name)
	}
	return found
}

// recorder are guests that tell which of them run.
type recorder struct {
	vcenter.Addresses
	mu      sync.Mutex
	stopped []string
}

func (r *recorder) Stop(_ context.Context, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = append(r.stopped, name)
	return nil
}

func TestDriverIsRefused(t *testing.T) {
	s := start(t, nil)
	cases := map[string]struct {
		values map[string]any
		want   string
	}{
		"wrong password": {map[string]any{"password": "wrong"}, "Login failure"},
		"no datacenter":  {map[string]any{"datacenter": "Atlantis"}, "datacenter 'Atlantis' not found"},
		"no network":     {map[string]any{"network": []string{"nowhere"}}, "network 'nowhere' not found"},
		"no pool":        {map[string]any{"pool": "nowhere"}, "resource pool 'nowhere' not found"},
		"no folder":      {map[string]any{"folder": "nowhere"}, "folder '/DC0/vm/nowhere' not found"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, newDriver(t, s, "two", c.values).PreCreateCheck(), c.want)
		})
	}
}
