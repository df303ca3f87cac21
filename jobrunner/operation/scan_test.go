package operation_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation"
	"github.com/drover-project/drover/state"
)

// newScan is a scan of the account of a machine, by the same credential.
func newScan(t *testing.T, of *job) *job {
	t.Helper()
	j := newJob(t, of.request.Driver.Name)
	j.request.Options, j.request.CredentialEnv, j.token = of.request.Options, of.request.CredentialEnv, of.token
	j.request.Machine, j.request.InstanceName, j.request.Tags = jobrunner.MachineRef{}, "", nil
	j.request.ScanNotAfter = time.Now().Add(time.Minute)
	return j
}

// entry is what a scan tells of a job's machine.
func entry(t *testing.T, result state.Result, of *job) state.ScannedServer {
	t.Helper()
	require.NotNil(t, result.Scan)
	for _, server := range result.Scan.Servers {
		if server.MachineUID == of.request.Machine.UID {
			return server
		}
	}
	return state.ScannedServer{}
}

func TestScan(t *testing.T) {
	t.Parallel()
	j := newJob(t, "digitalocean")
	j.request.Machine.ClusterUID = "cluster-uid"
	j.request.Tags = jobrunner.Tags(j.request.Machine)
	j.mustCreate()
	known, err := state.ReadServer(j.state())
	require.NoError(t, err)

	scan := newScan(t, j)
	code, result := scan.run(t.Context(), state.Scan)
	require.Equal(t, operation.ExitSucceeded, code, result.Message)
	got := entry(t, result, j)
	require.WithinDuration(t, time.Now(), got.Created, 5*time.Minute)
	got.Created = time.Time{}
	require.Equal(t, state.ScannedServer{
		ID: known.InstanceID, Name: j.request.InstanceName, ProviderID: known.ProviderID, MachineUID: j.request.Machine.UID,
		Machine: jobrunner.Tags(j.request.Machine)[jobrunner.TagMachine], ClusterUID: "cluster-uid", Cluster: "c1",
	}, got)
	require.Empty(t, result.Scan.Removed)
	require.Len(t, j.droplets(false), 1, "a scan that is told nothing removes nothing")
	scan.requireNoSecrets(j.secret())
	for key := range scan.state() {
		require.Contains(t, []string{state.ResultKey, state.LogKey}, key, "a scan keeps nothing else")
	}
	j.mustRemove()
}

func TestScan_removes(t *testing.T) {
	t.Parallel()
	orphan, stays := newJob(t, "digitalocean"), newJob(t, "digitalocean")
	stays.request.InstanceName += "-stays"
	orphan.mustCreate()
	stays.mustCreate()
	known, err := state.ReadServer(orphan.state())
	require.NoError(t, err)
	other, err := state.ReadServer(stays.state())
	require.NoError(t, err)

	scan := newScan(t, orphan)
	scan.request.Scan = []jobrunner.ScanTarget{
		{ID: known.InstanceID, MachineUID: orphan.request.Machine.UID},
		{ID: other.InstanceID, MachineUID: orphan.request.Machine.UID},
		{ID: other.InstanceID},
		{ID: "999999999", MachineUID: "nobody"},
	}
	code, result := scan.run(t.Context(), state.Scan)
	require.Equal(t, operation.ExitSucceeded, code, result.Message)
	require.Equal(t, []string{known.InstanceID}, result.Scan.Removed)
	require.Len(t, result.Notes, 3, "who is not what he was taken for stays: %q", result.Notes)
	require.Empty(t, orphan.droplets(false))
	require.Len(t, stays.droplets(false), 1)
	stays.mustRemove()
	orphan.mustRemove()
}

// One that cannot be removed does not keep the others.
func TestScan_removes_allThatCanBe(t *testing.T) {
	t.Parallel()
	jobs := []*job{newJob(t, "digitalocean"), newJob(t, "digitalocean"), newJob(t, "digitalocean")}
	scan := newScan(t, jobs[0])
	var ids []string
	for i, j := range jobs {
		j.request.InstanceName += fmt.Sprint("-", i)
		j.mustCreate()
		known, err := state.ReadServer(j.state())
		require.NoError(t, err)
		ids = append(ids, known.InstanceID)
		scan.request.Scan = append(scan.request.Scan, jobrunner.ScanTarget{ID: known.InstanceID, MachineUID: j.request.Machine.UID})
	}
	scan.fault("DELETE /v2/droplets/"+ids[0], fault.Effect{Status: 403}, 100)
	scan.fault("DELETE /v2/droplets/"+ids[1], fault.Effect{Status: 503}, 100)
	code, result := scan.run(t.Context(), state.Scan)
	scan.clearFaults()
	require.Equal(t, operation.ExitFailed, code)
	require.Equal(t, "RemoveFailed", result.Reason)
	require.Contains(t, result.Message, jobs[0].request.InstanceName+": removing server "+ids[0])
	require.Contains(t, result.Message, jobs[1].request.InstanceName+": removing server "+ids[1])
	require.Equal(t, ids[2:], result.Scan.Removed)
	for _, j := range jobs {
		require.NotEmpty(t, entry(t, result, j))
		j.mustRemove()
	}
}

// By the time that a pod has found a node a machine may have come back.
func TestScan_removes_nothingTooLate(t *testing.T) {
	t.Parallel()
	j := newJob(t, "digitalocean")
	j.mustCreate()
	known, err := state.ReadServer(j.state())
	require.NoError(t, err)
	for name, at := range map[string]time.Time{"late": time.Now().Add(-time.Second), "of a manager that does not say": {}} {
		t.Run(name, func(t *testing.T) {
			scan := newScan(t, j)
			scan.request.Scan = []jobrunner.ScanTarget{{ID: known.InstanceID, MachineUID: j.request.Machine.UID}}
			scan.request.ScanNotAfter = at
			code, result := scan.run(t.Context(), state.Scan)
			require.Equal(t, operation.ExitFailed, code)
			require.Equal(t, "JudgementTooOld", result.Reason)
			require.Contains(t, result.Message, "Servers left: 1; scan again")
			require.Empty(t, result.Scan.Removed)
			require.Len(t, j.droplets(false), 1)
		})
	}
	j.mustRemove()
}

// A copy that was made since the list was judged has the tag too.
func TestScan_removes_nothingOfWhichThereAreTwo(t *testing.T) {
	t.Parallel()
	one := newJob(t, "digitalocean")
	one.mustCreate()
	known, err := state.ReadServer(one.state())
	require.NoError(t, err)
	cloud := theCloud.Client(one.secret()).Droplets
	twin, _, err := cloud.Create(t.Context(), &godo.DropletCreateRequest{Name: one.request.InstanceName + "-too", Region: "nyc3", Size: "s-1vcpu-1gb",
		Image: godo.DropletCreateImage{Slug: "ubuntu-22-04-x64"}, Tags: []string{jobrunner.TagMachineUID + ":" + one.request.Machine.UID}})
	require.NoError(t, err)

	scan := newScan(t, one)
	scan.request.Scan = []jobrunner.ScanTarget{{ID: known.InstanceID, MachineUID: one.request.Machine.UID}}
	code, result := scan.run(t.Context(), state.Scan)
	require.Equal(t, operation.ExitSucceeded, code, result.Message)
	require.Empty(t, result.Scan.Removed)
	require.Contains(t, result.Notes[0], "is not the only one")
	for _, id := range []int{twin.ID, atoi(t, known.InstanceID)} {
		_, _, err := cloud.Get(t.Context(), id)
		require.NoError(t, err)
	}
	_, err = cloud.Delete(t.Context(), twin.ID)
	require.NoError(t, err)
	one.mustRemove()
}

func TestScan_failures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change        func(*job)
		class, reason string
	}{
		"a driver without tags":      {func(s *job) { s.request.Driver.Name = "exoscale" }, rkev1.ClassInvalid, "RequestInvalid"},
		"an external driver":         {func(s *job) { s.request.Driver = state.DriverRef{Name: "acme"} }, rkev1.ClassInvalid, "RequestInvalid"},
		"a credential that is wrong": {func(s *job) { s.request.CredentialEnv = map[string]string{"DIGITALOCEAN_ACCESS_TOKEN": "wrong"} }, rkev1.ClassUnauthorized, "LookupFailed"},
		"a cloud that is out": {func(s *job) {
			s.fault("GET /v2/droplets", fault.Effect{Status: 503}, 100)
		}, rkev1.ClassTransient, "LookupFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scan := newScan(t, newJob(t, "digitalocean"))
			c.change(scan)
			code, result := scan.run(t.Context(), state.Scan)
			require.Equal(t, operation.ExitFailed, code)
			require.Equal(t, c.class, result.Class, result.Message)
			require.Equal(t, c.reason, result.Reason, result.Message)
			require.Nil(t, result.Scan, "half a list is none")
		})
	}
}

func TestScan_vsphere(t *testing.T) {
	t.Parallel()
	j, s, _ := vsphereJob(t)
	j.request.Tags = jobrunner.Tags(j.request.Machine)
	j.mustCreate()
	machines := machinesAt(t, s)
	require.Len(t, machines, 1)

	scan := newScan(t, j)
	code, result := scan.run(t.Context(), state.Scan)
	require.Equal(t, operation.ExitSucceeded, code, result.Message)
	got := entry(t, result, j)
	require.Equal(t, machines[0].UUID, got.ID, "the unmodified driver wrote the tag")
	require.Equal(t, "vsphere://"+machines[0].UUID, got.ProviderID)

	scan.request.Scan = []jobrunner.ScanTarget{{ID: got.ID, MachineUID: got.MachineUID}}
	code, result = scan.run(t.Context(), state.Scan)
	require.Equal(t, operation.ExitSucceeded, code, result.Message)
	require.Equal(t, []string{got.ID}, result.Scan.Removed)
	require.Empty(t, machinesAt(t, s))
	j.mustRemove()
}
