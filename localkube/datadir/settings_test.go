package datadir_test

import (
	"flag"
	"net"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/datadir"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestSaveConfig_golden(t *testing.T) {
	for name, cfg := range map[string]datadir.Config{
		"founder": {
			NodeName: "one", PodCIDR: "198.19.0.0/17", ServiceCIDR: "198.19.128.0/17",
			HTTPSPort: 6443, EtcdClientPort: 20001, EtcdPeerPort: 20002, JoinPort: 20003,
		},
		"joiner": {
			NodeName: "two", PodCIDR: "198.19.0.0/17", ServiceCIDR: "198.19.128.0/17",
			HTTPSPort: 6443, EtcdClientPort: 20001, EtcdPeerPort: 20002, JoinPort: 20003,
			Replicated: true, InitialCluster: "two=https://198.18.0.2:20002,one=https://198.18.0.1:20002", Joining: true,
		},
	} {
		dir := open(t)
		require.NoError(t, dir.SaveConfig(cfg))
		got, err := os.ReadFile(dir.Path("config.json"))
		require.NoError(t, err)
		file := "testdata/" + name + ".golden"
		if *update {
			require.NoError(t, os.MkdirAll("testdata", 0o700))
			require.NoError(t, os.WriteFile(file, got, 0o600))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "a later version must still read this")
		have, known, err := dir.LoadConfig()
		require.NoError(t, err)
		require.True(t, known)
		require.Equal(t, cfg, have)
	}
}

func TestLoadConfig_refuses_ports_that_are_none(t *testing.T) {
	for text, want := range map[string]string{
		`{"httpsPort": 70000}`:                         "httpsPort 70000 is not a port",
		`{"etcdClientPort": -1}`:                       "etcdClientPort -1 is not a port",
		`{"etcdPeerPort": 65536}`:                      "etcdPeerPort 65536 is not a port",
		`{"joinPort": 1000000}`:                        "joinPort 1000000 is not a port",
		`{"joinPort": 1e9}`:                            "json: cannot unmarshal number 1e9 into Go struct field Config.joinPort of type int",
		`{"nodeName": 7}`:                              "json: cannot unmarshal number into Go struct field Config.nodeName of type string",
		`[]`:                                           "json: cannot unmarshal array into Go value of type datadir.Config",
		`{"nodeName": "n"} {"nodeName": "m"}`:          "invalid character '{' after top-level value",
		`{"httpsPort": 99999999999999999999999999999}`: "json: cannot unmarshal number 99999999999999999999999999999 into Go struct field Config.httpsPort of type int",
	} {
		dir := open(t)
		require.NoError(t, dir.Write([]byte(text), "config.json"))
		_, known, err := dir.LoadConfig()
		require.EqualError(t, err, "reading settings in "+dir.Path("config.json")+": "+want)
		require.False(t, known)
	}
}

func TestSettle_leaves_a_taken_port_alone(t *testing.T) {
	listener, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	_, text, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	taken, err := strconv.Atoi(text)
	require.NoError(t, err)
	cfg, err := open(t).Settle(datadir.Config{HTTPSPort: taken})
	require.NoError(t, err, "whether it is free is for the start to say")
	require.Equal(t, taken, cfg.HTTPSPort)
}

// Whatever was settled once is what every later start without wishes settles.
func TestSettle_is_stable(t *testing.T) {
	for range 20 {
		dir := open(t)
		first, err := dir.Settle(datadir.Config{NodeName: "n", PodCIDR: "p", ServiceCIDR: "s"})
		require.NoError(t, err)
		ports := map[int]bool{first.HTTPSPort: true, first.EtcdClientPort: true, first.EtcdPeerPort: true, first.JoinPort: true}
		require.Len(t, ports, 4)
		for range 3 {
			again, err := dir.Settle(datadir.Config{})
			require.NoError(t, err)
			require.Equal(t, first, again)
		}
	}
}

func TestLoadConfig_gives_back_what_was_saved(t *testing.T) {
	dir, err := datadir.Open(t.TempDir())
	require.NoError(t, err)
	check := func(raw []byte) {
		require.NoError(t, dir.Write(raw, "config.json"))
		cfg, known, err := dir.LoadConfig()
		if err != nil {
			require.Zero(t, cfg)
			return
		}
		require.True(t, known)
		require.NoError(t, dir.SaveConfig(cfg))
		again, _, err := dir.LoadConfig()
		require.NoError(t, err)
		require.Equal(t, cfg, again)
	}
	for _, seed := range []string{`{}`, `{"nodeName":"n","httpsPort":6443,"joining":true}`, `null`, `{"httpsPort":-1}`, `{"x":{}}`, "\xff"} {
		check([]byte(seed))
	}
}
