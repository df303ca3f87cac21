package operation_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/e2e/vcenter"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation"
	"github.com/drover-project/drover/jobrunner/operation/isoimage"
	"github.com/drover-project/drover/state"
)

const vspherePassword = `marker<&"password`

// writeImage is the mkisofs that the driver starts.
func writeImage() {
	if err := isoimage.Command(os.Args[1:], time.Now()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// oneVCenter: the simulator has variables of its package, so that two cannot run side by side.
var oneVCenter sync.Mutex

// vsphereJob is a job for the unmodified driver at a simulated vCenter.
func vsphereJob(t *testing.T) (*job, *vcenter.Simulator, *vcenter.Addresses) {
	t.Helper()
	oneVCenter.Lock()
	t.Cleanup(oneVCenter.Unlock)
	guests := &vcenter.Addresses{}
	s, err := vcenter.Start(t.Context(), vcenter.Options{Username: "drover@vsphere.local", Password: vspherePassword, Guests: guests})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	host, port, err := net.SplitHostPort(s.Address())
	require.NoError(t, err)
	j := withBootstrap(newJob(t, "vmwarevsphere"))
	j.request.Options = map[string]any{
		"vmwarevsphere-creation-type": "template", "vmwarevsphere-clone-from": vcenter.Template,
		"vmwarevsphere-datastore": vcenter.Datastore, "vmwarevsphere-network": []any{vcenter.Network},
	}
	j.request.CredentialEnv = map[string]string{
		"VSPHERE_VCENTER": host, "VSPHERE_VCENTER_PORT": port, "VSPHERE_USERNAME": "drover@vsphere.local", "VSPHERE_PASSWORD": vspherePassword,
	}
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	j.self = filepath.Join(dir, "machine")
	require.NoError(t, os.Symlink(self, j.self))
	require.NoError(t, os.Symlink(self, filepath.Join(dir, isoimage.Program)))
	return j, s, guests
}

func machinesAt(t *testing.T, s *vcenter.Simulator) []vcenter.Machine {
	t.Helper()
	machines, err := vcenter.List(t.Context(), s.Endpoint())
	require.NoError(t, err)
	return machines
}

func TestVsphere(t *testing.T) {
	t.Parallel()
	j, s, guests := vsphereJob(t)
	j.mustCreate()
	machines := machinesAt(t, s)
	require.Len(t, machines, 1)
	server, err := state.ReadServer(j.state())
	require.NoError(t, err)
	require.Equal(t, "vsphere://"+machines[0].UUID, server.ProviderID)
	require.Equal(t, machines[0].Address, server.Addresses[0].Address)
	require.Contains(t, guests.Seed(j.request.InstanceName).UserData, "bootstrap.sh")
	require.NotContains(t, j.output.String(), "soapenv", "the driver's conversation with vCenter has no place in a log")
	j.requireNoSecrets(vspherePassword, "MARKER-join-token-1234")
	j.mustRemove()
	require.Empty(t, machinesAt(t, s))
	j.mustRemove()
}

// The driver clones first and packs the user data afterwards: what a failed attempt leaves has none.
func TestVsphere_unfinished_clone_is_made_anew(t *testing.T) {
	t.Parallel()
	j, s, guests := vsphereJob(t)
	program := filepath.Join(filepath.Dir(j.self), isoimage.Program)
	require.NoError(t, os.Rename(program, program+".away"))
	code, result := j.run(t.Context(), state.Create)
	require.Equal(t, operation.ExitFailed, code)
	require.Contains(t, result.Message, isoimage.Program)
	require.True(t, result.ServerMayExist)
	require.Len(t, machinesAt(t, s), 1)

	require.NoError(t, os.Rename(program+".away", program))
	j.mustCreate()
	require.Len(t, machinesAt(t, s), 1)
	require.Contains(t, guests.Seed(j.request.InstanceName).UserData, "bootstrap.sh")
	j.mustRemove()
	require.Empty(t, machinesAt(t, s))
}

// TestVsphere_namesake: a machine of the same name is not taken, not started and not removed, whatever the state says.
func TestVsphere_namesake(t *testing.T) {
	t.Parallel()
	theirs, s, _ := vsphereJob(t)
	theirs.mustCreate()
	j := *theirs
	j.client = fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: stateName}})
	j.request.Attempt, j.request.Machine.UID = 1, "another"
	j.request.Tags = jobrunner.Tags(j.request.Machine)
	code, result := j.run(t.Context(), state.Create)
	require.Equal(t, operation.ExitFailed, code)
	require.Contains(t, result.Message, "DuplicateName")
	require.False(t, result.ServerMayExist, "the cloud refused to make one")
	code, _ = j.run(t.Context(), state.Create)
	require.Equal(t, operation.ExitFailed, code, "nor is it taken the next time")
	code, result = j.run(t.Context(), state.Remove)
	require.Equal(t, operation.ExitSucceeded, code, result.Message)

	for _, phase := range []state.Phase{state.PhaseIntent, state.PhaseRecorded} {
		journal, err := json.Marshal(state.Journal{Operation: state.Create, Phase: phase, InstanceName: j.request.InstanceName})
		require.NoError(t, err)
		for _, kind := range []state.Operation{state.Create, state.Remove} {
			j.setState(state.JournalKey, journal)
			_, result = j.run(t.Context(), kind)
			require.Equal(t, rkev1.ServerMayExistReason, result.Reason, "an answer was lost, and it may be ours (%s, %s)", phase, kind)
		}
	}
	require.Len(t, machinesAt(t, s), 1)
	theirs.mustRemove()
}

func TestVsphere_destroyed_by_others(t *testing.T) {
	t.Parallel()
	j, s, _ := vsphereJob(t)
	j.mustCreate()
	require.NoError(t, vcenter.Destroy(t.Context(), s.Endpoint(), j.request.InstanceName))
	j.mustRemove()
}

// A pod that dies after the driver was done leaves a finished server, which the next attempt takes: its clone has its user data.
func TestVsphere_finishedIsKept(t *testing.T) {
	t.Parallel()
	j, s, _ := vsphereJob(t)
	var before map[string][]byte
	j.client.PrependReactor("patch", "secrets", func(action clienttesting.Action) (bool, runtimeObject, error) {
		patch, ok := action.(clienttesting.PatchAction)
		if ok && bytes.Contains(patch.GetPatch(), []byte(state.ResultKey)) {
			object, err := j.client.Tracker().Get(action.GetResource(), "team", stateName)
			require.NoError(t, err)
			before = object.(*corev1.Secret).DeepCopy().Data
		}
		return false, nil, nil
	})
	j.mustCreate()
	for key := range j.state() {
		j.setState(key, before[key])
	}
	j.mustCreate()
	require.NotContains(t, j.output.String(), "removing the server", "the finished server was destroyed")
	require.Len(t, machinesAt(t, s), 1)
	j.mustRemove()
}
