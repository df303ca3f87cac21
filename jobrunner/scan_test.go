package jobrunner_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// A scan's objects are named by who asks and belong to no machine: no controller takes them for a machine's.
func TestScanTask(t *testing.T) {
	task := jobrunner.Task{Base: "look", Request: jobrunner.Request{Operation: state.Scan, Attempt: 2, Namespace: "team", StateSecret: "look-scan-result",
		Driver: state.DriverRef{Name: "digitalocean", Builtin: true}, CredentialEnv: map[string]string{"TOKEN": "marker"}}}
	require.Equal(t, "look-scan-2", task.Name())
	job := jobrunner.Job(task)
	require.Equal(t, []string{"/machine", "scan"}, job.Spec.Template.Spec.Containers[0].Command)
	require.Equal(t, "look-scan", job.Spec.Template.Spec.ServiceAccountName)
	require.Equal(t, map[string]string{"io.cattle.node_driver.name": "digitalocean", "drover.cattle.io/operation": "scan", "drover.cattle.io/attempt": "2"}, job.Labels)
	role := jobrunner.Role(task)
	require.Equal(t, "look-scan", role.Name)
	require.Len(t, role.Rules, 1)
	require.Equal(t, []string{"look-scan-result"}, role.Rules[0].ResourceNames)
	request, err := jobrunner.RequestSecret(task)
	require.NoError(t, err)
	require.Contains(t, string(request.Data[jobrunner.RequestKey]), "marker")
	require.NotContains(t, job.String(), "marker")
}
