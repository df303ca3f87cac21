package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/state"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud"
)

// newDriver returns a driver configured against the cloud.
func newDriver(t *testing.T, c *cloud.Cloud, values map[string]any) *Driver {
	t.Helper()
	store := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(store, "machines", "web-1"), 0o700))
	d := &Driver{BaseDriver: &drivers.BaseDriver{MachineName: "web-1", StorePath: store}, getenv: func(string) string { return "" }}
	all := map[string]any{
		"drovertest-token": c.Token(), "drovertest-endpoint": c.Endpoints.API, "drovertest-ca-cert": string(c.CAPEM()),
		"drovertest-tag": []string{"blue"}, "drovertest-private-networking": true, "drovertest-ipv6": true, "drovertest-2nd-disk-gb": 5,
	}
	maps.Copy(all, values)
	options := &drivers.CheckDriverOptions{FlagsValues: all, CreateFlags: d.GetCreateFlags()}
	require.NoError(t, d.SetConfigFromFlags(options))
	require.Empty(t, options.InvalidFlags)
	return d
}

func startCloud(t *testing.T) *cloud.Cloud {
	t.Helper()
	c, err := cloud.New(cloud.Options{})
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestLifeOfAServer(t *testing.T) {
	c := startCloud(t)
	userData := filepath.Join(t.TempDir(), "user-data")
	require.NoError(t, os.WriteFile(userData, []byte("#!/bin/sh\n"), 0o600))
	d := newDriver(t, c, map[string]any{"drovertest-userdata": userData})
	require.NoError(t, d.PreCreateCheck())
	require.NoError(t, d.Create())
	require.NotEmpty(t, d.InstanceID)
	require.NotEmpty(t, d.IPAddress)
	require.NotEmpty(t, d.PrivateIPAddress)
	require.NotEmpty(t, d.IPv6Address)
	require.FileExists(t, d.GetSSHKeyPath())
	given, err := c.Account.UserData(d.dropletID())
	require.NoError(t, err)
	require.Equal(t, "#!/bin/sh\n", given)
	require.Equal(t, []string{"blue", "made-by-drovertest"}, c.Ledger.Live("droplet")[0].Tags)
	now, err := d.GetState()
	require.NoError(t, err)
	require.Equal(t, state.Running, now)

	record, err := json.Marshal(d)
	require.NoError(t, err)
	require.NotContains(t, string(record), c.Token(), "the token is not in the state")
	later := &Driver{BaseDriver: &drivers.BaseDriver{}, getenv: func(string) string { return c.Token() }}
	require.NoError(t, json.Unmarshal(record, later))
	require.NoError(t, later.Remove())
	require.NoError(t, later.Remove(), "removing again is no error")
	now, err = later.GetState()
	require.NoError(t, err)
	require.Equal(t, state.NotFound, now)
	c.AssertNothingLeft(t)
}

func TestToldToFail(t *testing.T) {
	c := startCloud(t)
	require.Error(t, newDriver(t, c, map[string]any{"drovertest-fail": "check"}).PreCreateCheck())
	require.Error(t, newDriver(t, c, map[string]any{"drovertest-fail": "create"}).Create())
	c.AssertNothingLeft(t)
	d := newDriver(t, c, map[string]any{"drovertest-fail": "after-create"})
	require.Error(t, d.Create())
	require.Len(t, c.Ledger.Live("droplet"), 1)
	require.NoError(t, d.Remove())
	d = newDriver(t, c, map[string]any{"drovertest-fail": "remove"})
	require.Error(t, d.Remove())
	c.AssertNothingLeft(t)
}

func TestBadValuesAreRefused(t *testing.T) {
	c := startCloud(t)
	require.ErrorContains(t, newDriver(t, c, map[string]any{"plain-region": "mars1"}).PreCreateCheck(), `no region "mars1"`)
	require.ErrorContains(t, newDriver(t, c, map[string]any{"drovertest-ca-cert": "x"}).PreCreateCheck(), "not PEM")
	d := &Driver{BaseDriver: &drivers.BaseDriver{}, getenv: func(string) string { return "" }}
	options := &drivers.CheckDriverOptions{CreateFlags: d.GetCreateFlags()}
	require.ErrorContains(t, d.SetConfigFromFlags(options), "requires the --drovertest-token option")
}

// Each way of taking user data, and what is refused.
func TestUserDataHabits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "user-data")
	require.NoError(t, os.WriteFile(file, []byte("#!x"), 0o600))
	for name, c := range map[string]struct {
		values map[string]any
		want   string
		err    string
	}{
		"path":      {values: map[string]any{"userdata": file}, want: "#!x"},
		"early":     {values: map[string]any{"userdata-early": file}, want: "#!x"},
		"too early": {values: map[string]any{"userdata-early": file + "2"}, err: "reading user data early"},
		"text":      {values: map[string]any{"userdata-text": "#!x"}, want: "#!x"},
		"switch":    {values: map[string]any{"userdata-text": file, "userdata-from-file": true}, want: "#!x"},
		"base64":    {values: map[string]any{"userdata-base64": "IyF4"}, want: "#!x"},
		"no base64": {values: map[string]any{"userdata-base64": "#!x"}, err: "is no base64"},
		"both":      {values: map[string]any{"userdata": file, "userdata-text": "#!x"}, err: "exclude each other"},
		"joined":    {values: map[string]any{"userdata-text": "#!x", "userdata-more": "y"}, want: "#!xy"},
		"dropped":   {values: map[string]any{"userdata-more": "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			values := map[string]any{"drovertest-token": "t"}
			for flag, value := range c.values {
				values["drovertest-"+flag] = value
			}
			d := &Driver{BaseDriver: &drivers.BaseDriver{}, getenv: func(string) string { return "" }}
			err := d.SetConfigFromFlags(&drivers.CheckDriverOptions{FlagsValues: values, CreateFlags: d.GetCreateFlags()})
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			got := d.UserDataText
			if d.UserDataFile != "" {
				content, err := os.ReadFile(d.UserDataFile)
				require.NoError(t, err)
				got = string(content)
			}
			require.Equal(t, c.want, got)
		})
	}
}
