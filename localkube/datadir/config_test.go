package datadir_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/datadir"
)

func TestLoadConfig(t *testing.T) {
	dir := open(t)
	_, known, err := dir.LoadConfig()
	require.NoError(t, err)
	require.False(t, known, "this is the first start")

	want := datadir.Config{NodeName: "n", HTTPSPort: 6443, Replicated: true, Joining: true, InitialCluster: "n=https://x"}
	require.NoError(t, dir.SaveConfig(want))
	have, known, err := dir.LoadConfig()
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, want, have)
}

func TestLoadConfig_names_the_broken_file(t *testing.T) {
	for name, content := range map[string]string{"empty": "", "cut off": `{"nodeName": "n`, "wrong type": `{"httpsPort": "x"}`} {
		t.Run(name, func(t *testing.T) {
			dir := open(t)
			require.NoError(t, dir.Write([]byte(content), "config.json"))
			_, _, err := dir.LoadConfig()
			require.ErrorContains(t, err, dir.Path("config.json"))
			_, err = dir.Settle(datadir.Config{NodeName: "n"})
			require.ErrorContains(t, err, dir.Path("config.json"), "broken settings are not replaced by new ones")
			raw, err := os.ReadFile(dir.Path("config.json"))
			require.NoError(t, err)
			require.Equal(t, content, string(raw))
		})
	}
	dir := open(t)
	_, err := dir.Make("config.json")
	require.NoError(t, err)
	_, _, err = dir.LoadConfig()
	require.ErrorContains(t, err, "reading settings")
}

func TestSettle_picks_a_port_for_everything(t *testing.T) {
	dir := open(t)
	cfg, err := dir.Settle(datadir.Config{HTTPSPort: 443})
	require.NoError(t, err)
	require.Equal(t, 443, cfg.HTTPSPort)
	ports := map[int]bool{cfg.HTTPSPort: true}
	for _, port := range []int{cfg.EtcdClientPort, cfg.EtcdPeerPort, cfg.JoinPort} {
		require.False(t, ports[port], "%d is given twice", port)
		ports[port] = true
		require.GreaterOrEqual(t, port, 20000)
		require.Less(t, port, 32000, "the kernel's ephemeral ports start here")
	}
}

func TestSettle_keeps_ports_apart(t *testing.T) {
	dir := open(t)
	cfg, err := dir.Settle(datadir.Config{HTTPSPort: 443})
	require.NoError(t, err)
	_, err = dir.Settle(datadir.Config{HTTPSPort: cfg.JoinPort})
	require.ErrorContains(t, err, "choose another --https-port")
	again, err := dir.Settle(datadir.Config{})
	require.NoError(t, err)
	require.Equal(t, cfg, again, "a refused wish changes nothing")
}

func TestSettle_says_which_flag_cannot_change(t *testing.T) {
	dir := open(t)
	first := datadir.Config{NodeName: "n", PodCIDR: "198.19.0.0/17", ServiceCIDR: "198.19.128.0/17"}
	_, err := dir.Settle(first)
	require.NoError(t, err)
	for want, cfg := range map[string]datadir.Config{
		"--pod-cidr is 198.19.0.0/17 in this data directory and cannot become x":       {PodCIDR: "x"},
		"--service-cidr is 198.19.128.0/17 in this data directory and cannot become x": {ServiceCIDR: "x"},
		"--node-name is n in this data directory and cannot become x":                  {NodeName: "x"},
	} {
		_, err := dir.Settle(cfg)
		require.EqualError(t, err, want)
	}
	_, err = dir.Settle(first)
	require.NoError(t, err, "asking for what is there is no change")
}
