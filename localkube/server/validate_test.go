package server

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/node"
)

func TestValidate(t *testing.T) {
	for name, tt := range map[string]struct {
		opts Options
		want string
	}{
		"defaults":               {Options{}, ""},
		"ranges":                 {Options{PodCIDR: "198.19.0.0/17", ServiceCIDR: "198.19.128.0/17", HTTPSPort: 65535}, ""},
		"joining":                {Options{JoinURL: "https://x", JoinToken: "t"}, ""},
		"unknown component":      {Options{Disable: []string{"etcd"}}, "--disable etcd: only controller-manager and scheduler"},
		"empty component":        {Options{Disable: []string{""}}, "only controller-manager and scheduler can be disabled"},
		"pod range":              {Options{PodCIDR: "198.19.0.0"}, "reading --pod-cidr: invalid CIDR address: 198.19.0.0"},
		"service range":          {Options{ServiceCIDR: "x"}, "reading --service-cidr"},
		"negative port":          {Options{HTTPSPort: -1}, "--https-port -1 is not a port"},
		"port out of range":      {Options{HTTPSPort: 65536}, "give one from 1 to 65535"},
		"node name":              {Options{Node: node.Options{Name: "worker-1.example"}}, ""},
		"node name, capitals":    {Options{Node: node.Options{Name: "Worker"}}, `--node-name "Worker" is not a node name`},
		"node name, member list": {Options{Node: node.Options{Name: "a=https://x,b"}}, `--node-name "a=https://x,b" is not a node name`},
		"same range twice":       {Options{PodCIDR: "198.19.0.0/17", ServiceCIDR: "198.19.0.0/17"}, "must not share addresses"},
		"services among pods":    {Options{PodCIDR: "198.19.0.0/16", ServiceCIDR: "198.19.128.0/17"}, "pods (198.19.0.0/16) and services (198.19.128.0/17) must not"},
		"pods among services":    {Options{PodCIDR: "198.19.4.0/24", ServiceCIDR: "198.19.0.0/16"}, "set --pod-cidr and --service-cidr"},
		"node, no controllers":   {Options{RunNode: true, Disable: []string{"controller-manager"}}, "--node needs the controller manager"},
		"node, no scheduler":     {Options{RunNode: true, Disable: []string{"kube-scheduler"}}, "--node needs the controller manager"},
		"node that is ephemeral": {Options{RunNode: true, Ephemeral: true}, "--ephemeral and --node exclude each other"},
		"join without token":     {Options{JoinURL: "https://x"}, "--join and --token belong together"},
		"token without join":     {Options{JoinToken: "hush"}, "--join and --token belong together"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.opts.validate()
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "hush")
		})
	}
}

func TestRun_refuses_bad_options_before_it_touches_anything(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	var out, log bytes.Buffer
	require.ErrorContains(t, Run(t.Context(), Options{DataDir: dir, PodCIDR: "x"}, &out, &log), "--pod-cidr")
	require.ErrorContains(t, Run(t.Context(), Options{}, &out, &log), "set --data-dir")
	require.NoDirExists(t, dir)
	require.Empty(t, out.String(), "stdout is for the kubeconfig's path alone")
}

func TestWanted_keeps_what_the_user_says(t *testing.T) {
	o := Options{PodCIDR: "198.18.0.0/17", ServiceCIDR: "198.18.128.0/17", HTTPSPort: 6443, Node: node.Options{Name: "n"}}
	for _, first := range []bool{true, false} {
		cfg, err := o.wanted(first)
		require.NoError(t, err)
		require.Equal(t, o.PodCIDR, cfg.PodCIDR)
		require.Equal(t, o.ServiceCIDR, cfg.ServiceCIDR)
		require.Equal(t, 6443, cfg.HTTPSPort)
		require.Equal(t, "n", cfg.NodeName)
	}
}
