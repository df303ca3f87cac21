package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rancher/machine/libmachine/drivers"
	rpcdriver "github.com/rancher/machine/libmachine/drivers/rpc"
	"github.com/rancher/machine/libmachine/mcnflag"
	"github.com/rancher/machine/libmachine/state"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud"
)

const binary = "docker-machine-driver-drovertest"

// TestMain is also the plugin itself, when libmachine starts it by its name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == binary {
		main()
		return
	}
	os.Exit(m.Run())
}

// startPlugin starts the plugin as a process of its own, as libmachine does.
func startPlugin(t *testing.T, record string) *rpcdriver.RPCClientDriver {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(dir, binary)))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	factory := rpcdriver.NewRPCClientDriverFactory()
	t.Cleanup(func() { require.NoError(t, factory.Close()) })
	client, err := factory.NewRPCClientDriver("drovertest", []byte(record))
	require.NoError(t, err)
	return client
}

// emptyRecord is what libmachine hands to a driver before there is a machine.
func emptyRecord(t *testing.T) string {
	t.Helper()
	store := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(store, "machines", "web-1"), 0o700))
	record, err := json.Marshal(drivers.BaseDriver{MachineName: "web-1", StorePath: store})
	require.NoError(t, err)
	return string(record)
}

// typed are the values of flags as a command line gives them.
func typed(flags []mcnflag.Flag, given map[string]any) rpcdriver.RPCFlags {
	values := map[string]any{"swarm-master": false, "swarm-host": "", "swarm-discovery": ""}
	for _, flag := range flags {
		values[flag.String()] = flag.Default()
		switch flag := flag.(type) {
		case *mcnflag.StringSliceFlag:
			values[flag.String()] = append([]string{}, flag.Value...)
		case mcnflag.StringSliceFlag:
			values[flag.String()] = append([]string{}, flag.Value...)
		}
	}
	maps.Copy(values, given)
	return rpcdriver.RPCFlags{Values: values}
}

// startCloud starts a cloud that plugins are led to.
func startCloud(t *testing.T) *cloud.Cloud {
	t.Helper()
	c, err := cloud.New(cloud.Options{StateDir: t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	for _, pair := range c.Environment() {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
	return c
}

func TestPluginSpeaksLibmachinesProtocol(t *testing.T) {
	c := startCloud(t)
	plugin := startPlugin(t, emptyRecord(t))
	require.Equal(t, "drovertest", plugin.DriverName())
	flags := plugin.GetCreateFlags()
	require.Len(t, flags, len((&Driver{}).GetCreateFlags()))
	require.NoError(t, plugin.SetConfigFromFlags(typed(flags, map[string]any{"drovertest-token": c.Token(), "drovertest-tag": []string{"red"}})))
	require.NoError(t, plugin.PreCreateCheck())
	require.NoError(t, plugin.Create())
	now, err := plugin.GetState()
	require.NoError(t, err)
	require.Equal(t, state.Running, now)
	address, err := plugin.GetIP()
	require.NoError(t, err)
	require.Equal(t, "198.18.1.1", address)
	require.Equal(t, []string{"made-by-drovertest", "red"}, c.Ledger.Live("droplet")[0].Tags)

	record, err := plugin.GetConfigRaw()
	require.NoError(t, err)
	require.NotContains(t, string(record), c.Token())

	t.Setenv(tokenVariable, c.Token()) // as the Job of a removal gives it
	later := startPlugin(t, string(record))
	now, err = later.GetState()
	require.NoError(t, err)
	require.Equal(t, state.Running, now)
	require.NoError(t, later.Remove())
	require.NoError(t, later.Remove(), "removing again is no error")
	now, err = later.GetState()
	require.NoError(t, err)
	require.Equal(t, state.NotFound, now)
	c.AssertNothingLeft(t)
}

func TestPluginTellsItsErrorsThroughTheProtocol(t *testing.T) {
	startCloud(t)
	plugin := startPlugin(t, emptyRecord(t))
	flags := plugin.GetCreateFlags()
	require.ErrorContains(t, plugin.SetConfigFromFlags(typed(flags, nil)), "drovertest driver requires the --drovertest-token option")
	require.NoError(t, plugin.SetConfigFromFlags(typed(flags, map[string]any{"drovertest-token": "marker-wrong"})))
	err := plugin.PreCreateCheck()
	require.ErrorContains(t, err, "401")
	require.NotContains(t, err.Error(), "marker")
	require.NoError(t, plugin.Remove(), "nothing was made")
}
