package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner/operation"
)

// TestBuiltin: what package driver says is built in is linked, and under its own name.
func TestBuiltin(t *testing.T) {
	for _, name := range driver.BuiltinNames() {
		linked := builtin(name)
		require.NotNil(t, linked, name)
		require.Equal(t, name, linked.DriverName())
	}
	require.Nil(t, builtin("acme"))
}

func TestRun_usage(t *testing.T) {
	require.Equal(t, operation.ExitUsage, run(t.Context(), nil))
	require.Equal(t, operation.ExitUsage, run(t.Context(), []string{"create"}), "there is no request here")
}

func TestDriverEnvironment(t *testing.T) {
	require.Equal(t, []string{"HTTPS_PROXY=x"}, driverEnvironment([]string{"MACHINE_PLUGIN_TOKEN=42", "HTTPS_PROXY=x", "MACHINE_DEBUG=1"}))
}
