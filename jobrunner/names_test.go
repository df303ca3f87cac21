package jobrunner_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

func TestObjectName(t *testing.T) {
	require.Equal(t, "pool1-abc-create-1", jobrunner.JobName("pool1-abc", state.Create, 1))
	require.Equal(t, "pool1-abc-rm-12", jobrunner.JobName("pool1-abc", state.Remove, 12))
	require.Equal(t, "pool1-abc-machine-state", jobrunner.StateSecretName("pool1-abc"))
	require.Equal(t, "pool1-abc-machine", jobrunner.AccessName("pool1-abc"))

	long := strings.Repeat("a", 80)
	require.NotEqual(t, jobrunner.ObjectName(long, "b"), jobrunner.ObjectName(long, "c"), "what was cut off still tells them apart")
	require.NotEqual(t, jobrunner.ObjectName("a.b"), jobrunner.ObjectName("a-b"))
	require.NotEqual(t, jobrunner.JobName(long, state.Create, 1), jobrunner.JobName(long, state.Create, 2))
}

func TestInstanceName(t *testing.T) {
	tests := []struct {
		name, machine string
		limit         int
		want, wantErr string
	}{
		{name: "as it is", machine: "pool1-abc", limit: 63, want: "pool1-abc"},
		{name: "dots", machine: "pool1.abc", limit: 63, want: "pool1-abc-"},
		{name: "cut", machine: "a-rather-long-machine-name", limit: 15, want: "a-rath-"},
		{name: "shortest", machine: "a-rather-long-machine-name", limit: 10, want: "a-"},
		{name: "limit too low", machine: "a", limit: 9, wantErr: "between 10 and 63"},
		{name: "limit too high", machine: "a", limit: 64, wantErr: "between 10 and 63"},
		{name: "no name", limit: 63, wantErr: "no name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := jobrunner.InstanceName(tt.machine, tt.limit)
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr)
				return
			}
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(got, tt.want), got)
			require.LessOrEqual(t, len(got), tt.limit)
		})
	}
}

func TestInstanceNameLimits(t *testing.T) {
	limit, err := jobrunner.ParseInstanceNameLimit("google", "")
	require.NoError(t, err)
	require.Equal(t, 58, limit)
	limit, err = jobrunner.ParseInstanceNameLimit("digitalocean", " 15 ")
	require.NoError(t, err)
	require.Equal(t, 15, limit)
	for _, bad := range []string{"x", "9", "64", "-1", "1e2"} {
		_, err = jobrunner.ParseInstanceNameLimit("google", bad)
		require.ErrorContains(t, err, "between 10 and 63")
	}
	require.ErrorContains(t, jobrunner.CheckInstanceName("google", strings.Repeat("a", 60)), "hostname-length-limit")
	require.ErrorContains(t, jobrunner.CheckInstanceName("google", "1-pool"), "letter")
	require.ErrorContains(t, jobrunner.CheckInstanceName("google", ""), "letter")
	require.ErrorContains(t, jobrunner.CheckInstanceName("azure", strings.Repeat("a", 60)), "longer than the 59")
	require.NoError(t, jobrunner.CheckInstanceName("azure", "1-pool"))
	require.NoError(t, jobrunner.CheckInstanceName("google", "pool-1"))
	require.NoError(t, jobrunner.CheckInstanceName("digitalocean", "1-pool"))
}

func FuzzInstanceName(f *testing.F) {
	f.Add("pool1-abc", 63)
	f.Add("..-..", 10)
	f.Add("ÄÖÜ.example.org", 20)
	f.Fuzz(func(t *testing.T, machine string, limit int) {
		got, err := jobrunner.InstanceName(machine, limit)
		if err != nil {
			return
		}
		require.Empty(t, validation.IsDNS1123Label(got), got)
		require.LessOrEqual(t, len(got), limit)
		again, err := jobrunner.InstanceName(machine, limit)
		require.NoError(t, err)
		require.Equal(t, got, again)
		other, err := jobrunner.InstanceName(machine+"x", limit)
		require.NoError(t, err)
		require.NotEqual(t, got, other)
		require.Empty(t, validation.IsDNS1123Label(jobrunner.ObjectName(machine, "machine", "state")))
	})
}
