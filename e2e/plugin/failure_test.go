package main

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/state"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/fault"
)

func addFault(t *testing.T, c *cloud.Cloud, match string, effect fault.Effect) {
	t.Helper()
	_, err := c.Faults().Add(fault.Rule{Match: match, Effect: effect})
	require.NoError(t, err)
}

// What the cloud refuses, the driver tells, and a removal afterwards leaves nothing.
func TestWhatTheCloudRefusesIsToldAndRemoved(t *testing.T) {
	for name, test := range map[string]struct {
		match  string
		effect fault.Effect
		want   []string
		left   int // servers that there are before the removal
	}{
		"quota":       {fault.CreateDroplet, fault.Quota(), []string{"creating server: ", "422", "will exceed your droplet limit"}, 0},
		"token":       {fault.CreateKey, fault.Unauthorized(), []string{"registering key: ", "401"}, 0},
		"down":        {fault.CreateDroplet, fault.ServerError(http.StatusServiceUnavailable), []string{"creating server: ", "503"}, 0},
		"cut off":     {fault.CreateKey, fault.ConnectionLost(), []string{"registering key: ", "EOF"}, 0},
		"no answer":   {fault.GetDroplet, fault.ServerError(http.StatusBadGateway), []string{"waiting for the server's address: ", "502"}, 1},
		"disappeared": {fault.GetDroplet, fault.Effect{Status: http.StatusNotFound}, []string{"waiting for the server's address: ", "404"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := startCloud(t)
			addFault(t, c, test.match, test.effect)
			d := newDriver(t, c, nil)
			err := d.Create()
			for _, want := range test.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), c.Token())
			require.Len(t, c.Live("droplet"), test.left)
			c.Faults().Clear()
			require.NoError(t, d.Remove())
			c.AssertNothingLeft(t)
		})
	}
}

func TestRemovalThatFailsCanBeDoneAgain(t *testing.T) {
	for match, want := range map[string]string{fault.DeleteKey: "removing key: ", fault.DeleteDroplet: "removing server: "} {
		t.Run(match, func(t *testing.T) {
			c := startCloud(t)
			d := newDriver(t, c, nil)
			require.NoError(t, d.Create())
			addFault(t, c, match, fault.ServerError(http.StatusInternalServerError))
			require.ErrorContains(t, d.Remove(), want)
			require.Len(t, c.Live("droplet"), 1)
			c.Faults().Clear()
			require.NoError(t, d.Remove())
			c.AssertNothingLeft(t)
		})
	}
}

func TestAddressThatComesLateIsAwaited(t *testing.T) {
	c, err := cloud.New(cloud.Options{BootDelay: 50 * time.Millisecond})
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	d := newDriver(t, c, map[string]any{"drovertest-ipv6": false, "drovertest-private-networking": false})
	require.NoError(t, d.Create())
	require.Equal(t, "198.18.1.1", d.IPAddress)
	require.Empty(t, d.PrivateIPAddress)
	require.Empty(t, d.IPv6Address)
	host, err := d.GetSSHHostname()
	require.NoError(t, err)
	require.Equal(t, "198.18.1.1", host)
}

func TestPowerIsTheServers(t *testing.T) {
	c := startCloud(t)
	d := newDriver(t, c, nil)
	require.NoError(t, d.Create())
	for _, step := range []struct {
		name string
		act  func() error
		want state.State
	}{
		{"stop", d.Stop, state.Stopped}, {"start", d.Start, state.Running}, {"restart", d.Restart, state.Running},
		{"kill", d.Kill, state.Stopped}, {"start again", d.Start, state.Running},
	} {
		require.NoError(t, step.act(), step.name)
		require.Eventually(t, func() bool {
			now, err := d.GetState()
			require.NoError(t, err)
			// A server that is being restarted says all the time that it runs.
			return now == step.want && !c.Account().Droplets("", "")[0].Locked
		}, time.Minute, 5*time.Millisecond, step.name)
	}
	require.NoError(t, d.Remove())
	for name, act := range map[string]func() error{"power_on": d.Start, "shutdown": d.Stop, "reboot": d.Restart, "power_off": d.Kill} {
		err := act()
		require.ErrorContains(t, err, "asking for "+name+": ")
		require.ErrorContains(t, err, "404")
	}
}

func TestStateOfAServer(t *testing.T) {
	c := startCloud(t)
	d := newDriver(t, c, nil)
	now, err := d.GetState()
	require.NoError(t, err)
	require.Equal(t, state.NotFound, now, "it was never made")
	addFault(t, c, fault.CreateDroplet, fault.NeverBoots())
	require.NoError(t, d.createKeyAndServer(t))
	now, err = d.GetState()
	require.NoError(t, err)
	require.Equal(t, state.Starting, now)
	addFault(t, c, fault.GetDroplet, fault.ServerError(http.StatusBadGateway))
	now, err = d.GetState()
	require.ErrorContains(t, err, "asking for the server's state: ")
	require.Equal(t, state.Error, now)
	c.Faults().Clear()
	require.NoError(t, d.Remove())

	d.InstanceID = "marker" // as a damaged record has it: it must not come to mean another server
	_, err = d.GetState()
	require.ErrorContains(t, err, "asking for the server's state: ")
	require.ErrorContains(t, d.Remove(), "removing server: ")
}

// createKeyAndServer is Create without the wait.
func (d *Driver) createKeyAndServer(t *testing.T) error {
	t.Helper()
	client, err := d.client()
	require.NoError(t, err)
	require.NoError(t, d.createKey(client))
	return d.createServer(client)
}

func TestFilesThatCannotBeReadOrWritten(t *testing.T) {
	c := startCloud(t)
	missing := filepath.Join(t.TempDir(), "missing")
	d := newDriver(t, c, map[string]any{"drovertest-userdata": missing})
	require.EqualError(t, d.Create(), "reading user data: open "+missing+": no such file or directory")
	require.Empty(t, c.Live("droplet"))
	require.NoError(t, d.Remove(), "its key is registered already")

	d = newDriver(t, c, nil)
	require.NoError(t, os.RemoveAll(d.StorePath))
	require.ErrorContains(t, d.Create(), "generating key: ")
	c.AssertNothingLeft(t)
}

func TestEndpointsThatAreRefused(t *testing.T) {
	c := startCloud(t)
	for endpoint, want := range map[string]string{
		"":                                   `drovertest: the endpoint "/" is not https`,
		"http://api.test":                    `drovertest: the endpoint "http://api.test/" is not https`,
		"http://me:marker-password@api.test": `drovertest: the endpoint "http://me:xxxxx@api.test/" is not https`,
		"ftp://api.test":                     `drovertest: the endpoint "ftp://api.test/" is not https`,
		"https://a b":                        "parsing endpoint: ",
	} {
		t.Run(endpoint, func(t *testing.T) {
			d := newDriver(t, c, map[string]any{"drovertest-endpoint": endpoint})
			require.ErrorContains(t, d.PreCreateCheck(), want)
			require.ErrorContains(t, d.Create(), want)
			require.ErrorContains(t, d.Remove(), want)
			require.ErrorContains(t, d.Start(), want)
			d.InstanceID = "1"
			now, err := d.GetState()
			require.ErrorContains(t, err, want)
			require.Equal(t, state.Error, now)
		})
	}
	for _, slashes := range []string{"", "/", "//"} {
		require.NoError(t, newDriver(t, c, map[string]any{"drovertest-endpoint": c.Endpoints().API + slashes}).PreCreateCheck())
	}
	d := newDriver(t, c, map[string]any{"drovertest-ca-cert": ""})
	require.ErrorContains(t, d.PreCreateCheck(), "certificate signed by unknown authority")
}

func TestGetURL(t *testing.T) {
	d := &Driver{BaseDriver: &drivers.BaseDriver{}}
	where, err := d.GetURL()
	require.EqualError(t, err, "IPv4 address is not set")
	require.Empty(t, where)
	for address, want := range map[string]string{"198.18.1.1": "tcp://198.18.1.1:2376", "2001:db8::1": "tcp://[2001:db8::1]:2376"} {
		d.IPAddress = address
		where, err = d.GetURL()
		require.NoError(t, err)
		require.Equal(t, want, where)
	}
}

func TestEveryFlagArrives(t *testing.T) {
	d := &Driver{BaseDriver: &drivers.BaseDriver{}, getenv: func(string) string { return "" }}
	tags := append(make([]string, 0, 8), "a", "b") // with room to append into
	options := &drivers.CheckDriverOptions{CreateFlags: d.GetCreateFlags(), FlagsValues: map[string]any{
		"drovertest-token": "t", "drovertest-endpoint": "https://api.test", "drovertest-ca-cert": "pem", "drovertest-size": "s",
		"plain-region": "r", "drovertest-ssh-user": "ops", "drovertest-ssh-port": 2222, "drovertest-2nd-disk-gb": 7,
		"drovertest-private-networking": true, "drovertest-ipv6": true, "drovertest-tag": tags,
		"drovertest-label": []string{"c"}, "drovertest-userdata": "/u", "drovertest-fail": "remove",
	}}
	require.NoError(t, d.SetConfigFromFlags(options))
	require.Empty(t, options.InvalidFlags)
	require.Equal(t, &Driver{
		BaseDriver: &drivers.BaseDriver{SSHUser: "ops", SSHPort: 2222}, Endpoint: "https://api.test", CACert: "pem", Region: "r", Size: "s",
		SecondDiskGB: 7, PrivateNetworking: true, IPv6: true, Tags: []string{"a", "b", "c"}, UserDataFile: "/u", Fail: "remove", token: "t",
	}, withoutGetenv(d))
	require.Equal(t, []string{"a", "b", ""}, tags[:3], "the caller's list is the caller's")
	require.Equal(t, "t", d.secret(), "the flag wins over the environment")
}

func withoutGetenv(d *Driver) *Driver {
	bare := *d
	bare.getenv = nil
	return &bare
}
