package plugin_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rancher/machine/drivers/none"
	libplugin "github.com/rancher/machine/libmachine/drivers/plugin"
	"github.com/rancher/machine/libmachine/mcnflag"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/jobrunner/operation/plugin"
)

func TestMain(m *testing.M) {
	if os.Getenv("MACHINE_PLUGIN_TOKEN") != "" {
		libplugin.RegisterDriver(none.NewDriver("", ""))
		return
	}
	os.Exit(m.Run())
}

func TestProcess(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	var output bytes.Buffer
	p, err := plugin.Start(t.Context(), plugin.Options{Name: "none", Path: self, Env: os.Environ(), Output: &output})
	require.NoError(t, err)
	flags, err := p.Flags(t.Context())
	require.NoError(t, err)
	require.Equal(t, "url", flags[0].(*mcnflag.StringFlag).Name)
	require.NoError(t, p.Load(t.Context(), []byte(`{"MachineName":"m1"}`)))
	require.NoError(t, p.Configure(t.Context(), map[string]any{"url": "tcp://198.18.0.9:1"}))
	record, err := p.Record(t.Context())
	require.NoError(t, err)
	require.Contains(t, string(record), `"m1"`)

	err = p.Load(t.Context(), []byte("no json"))
	var own *plugin.Error
	require.ErrorAs(t, err, &own, "the driver's own error")

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.Create(cancelled), context.Canceled)

	p.Kill()
	p.Kill()
	_, err = p.Record(t.Context())
	require.ErrorIs(t, err, plugin.ErrUnresponsive)
}

// TestStart_refuses programs that are no drivers.
func TestStart_refuses(t *testing.T) {
	for name, script := range map[string]string{
		"ends at once":          "exit 0",
		"talks to somebody":     "echo 198.18.0.9:80; sleep 60",
		"prints something else": "echo hello; sleep 60",
		"prints for ever":       "exec yes | tr -d '\\n'",
		"says nothing":          "exec sleep 60",
		"leaves children":       "sleep 60 & sleep 60",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "docker-machine-driver-x")
			require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			start := time.Now()
			_, err := plugin.Start(ctx, plugin.Options{Name: "x", Path: path, Env: os.Environ(), Output: &bytes.Buffer{}})
			require.ErrorIs(t, err, plugin.ErrUnresponsive)
			require.Less(t, time.Since(start), 15*time.Second)
		})
	}
	_, err := plugin.Start(t.Context(), plugin.Options{Name: "x", Path: filepath.Join(t.TempDir(), "missing")})
	require.ErrorIs(t, err, os.ErrNotExist)
}
