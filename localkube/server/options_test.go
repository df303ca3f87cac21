package server

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/node"
)

func TestAddresses(t *testing.T) {
	own, err := node.DefaultAddress()
	if err != nil {
		t.Skip("this machine has no address but loopback")
	}
	for name, tt := range map[string]struct {
		opts            Options
		bind, advertise string
		err             string
	}{
		"a control plane keeps to itself": {Options{}, "127.0.0.1", "127.0.0.1", ""},
		"pods reach a node":               {Options{RunNode: true}, "0.0.0.0", own.String(), ""},
		"servers reach each other":        {Options{JoinURL: "https://x"}, "0.0.0.0", own.String(), ""},
		"bound to one address":            {Options{BindAddress: "198.18.0.1"}, "198.18.0.1", "198.18.0.1", ""},
		"advertised address":              {Options{RunNode: true, AdvertiseAddress: "198.18.0.1"}, "0.0.0.0", "198.18.0.1", ""},
		"pods do not reach loopback":      {Options{RunNode: true, BindAddress: "127.0.0.1"}, "", "", "set --advertise-address"},
		"no address":                      {Options{AdvertiseAddress: "x"}, "", "", "not an IP address"},
	} {
		t.Run(name, func(t *testing.T) {
			bind, advertise, err := tt.opts.addresses()
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.bind, bind.String())
			require.Equal(t, tt.advertise, advertise.String())
		})
	}
}

func TestWanted_fills_defaults_once(t *testing.T) {
	first, err := Options{}.wanted(true)
	require.NoError(t, err)
	require.Equal(t, DefaultPodCIDR, first.PodCIDR)
	require.Equal(t, DefaultServiceCIDR, first.ServiceCIDR)
	require.NotEmpty(t, first.NodeName)
	later, err := Options{}.wanted(false)
	require.NoError(t, err)
	require.Zero(t, later, "what is kept on disk decides")
}

func TestDisabled_knows_both_names(t *testing.T) {
	o := Options{Disable: []string{"scheduler", "kube-controller-manager"}}
	require.NoError(t, o.validate())
	require.True(t, o.disabled("kube-scheduler"))
	require.True(t, o.disabled("kube-controller-manager"))
	require.False(t, o.disabled("kube-apiserver"))
}

func TestUnlessStopped(t *testing.T) {
	boom, step := errors.New("boom"), errors.New("step")
	running := t.Context()
	require.Equal(t, step, unlessStopped(running, step))

	stopped, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, unlessStopped(stopped, step), "being told to stop is no failure")

	failed, fail := context.WithCancelCause(t.Context())
	fail(boom)
	require.Equal(t, boom, unlessStopped(failed, step), "the component's end is the cause, not the step that noticed")
}

func TestStatus_is_readable(t *testing.T) {
	require.Contains(t, Status{Running: true, PID: 7, Reason: "etcd is slow"}.String(), "running (process 7), not ready")
	require.Contains(t, Status{Running: true, Ready: true, PID: 7}.String(), "ready (process 7)")
	require.Contains(t, Status{}.String(), "stopped")
}
