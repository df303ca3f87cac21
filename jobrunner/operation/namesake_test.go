package operation

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation/finder"
	"github.com/drover-project/drover/state"
)

// named is a session of a driver that goes by names, at a cloud that has a server of the machine's name: a file. The record is
// that of an attempt that was cut off, made with the given tag.
func named(t *testing.T, with *scripted, content, tag string) (s *session, server string) {
	t.Helper()
	s = finding(t, "azure", with)
	dir := t.TempDir()
	server = filepath.Join(dir, s.request.InstanceName)
	require.NoError(t, os.WriteFile(server, []byte(content), 0o600))
	self, err := os.Executable()
	require.NoError(t, err)
	s.options.Self, s.options.Env = self, os.Environ()
	s.request.Driver.Builtin = true
	s.request.Tags = map[string]string{jobrunner.TagMachineUID: "m-uid"}
	s.request.CredentialEnv = map[string]string{"SLOW_DIR": dir}
	require.NoError(t, s.startDriver(t.Context(), false))
	t.Cleanup(s.stopDriver)
	s.finder = with
	s.record = maps.Clone(s.fresh)
	s.record["Tags"] = tag
	s.journal.Phase = state.PhaseCreated
	return s, server
}

// A server of our name without our tag is another machine's: it is neither taken nor removed.
func TestNamesake(t *testing.T) {
	with := &scripted{}
	s, server := named(t, with, "", "m-uid")
	require.Equal(t, makeNew, decided(t, s, forCreate))
	require.FileExists(t, server)

	s, server = named(t, with, "", "m-uid")
	require.Equal(t, spareNamesake, decided(t, s, forRemove))
	require.FileExists(t, server)
	require.Contains(t, s.result.Notes[0], "so Drover does not change it")

	s, server = named(t, with, "", "m-uid")
	conflict := fail(rkev1.CreateFailedReason, rkev1.ClassTransient, errors.New("409 it already exists"))
	_, err := s.inquire(t.Context(), forFailure, conflict)
	require.NoError(t, err)
	require.Equal(t, state.PhaseGone, s.journal.Phase)
	require.True(t, with.asked[len(with.asked)-1].Lost, "the list may lag behind")
	require.FileExists(t, server)
}

// With our tag it is ours; and without any, as it came from Rancher, the driver is believed.
func TestNamesake_ours(t *testing.T) {
	with := &scripted{found: []finder.Server{{ID: "/subscriptions/x", Name: "pool-1"}}}
	s, _ := named(t, with, "", "m-uid")
	withKey(t, s)
	require.Equal(t, takeFound, decided(t, s, forCreate))

	s, _ = named(t, &scripted{}, "", "")
	require.Equal(t, take, decided(t, s, forCreate))
	s, server := named(t, &scripted{}, "", "")
	require.Equal(t, nothingLeft, decided(t, s, forRemove))
	require.NoFileExists(t, server)
}

// Nor is a server removed that only the name names, which is written in a state, when its tag is another machine's: with a server of
// the machine's own beside it, or with none.
func TestNamesake_forgedName(t *testing.T) {
	for name, record := range map[string]clouds.Record{"no record": nil, "an empty record": {}, "one without the name": {"MachineName": ""}} {
		for _, phase := range []state.Phase{"", state.PhaseCreated, state.PhaseRemoving} {
			for _, found := range [][]finder.Server{nil, {{ID: "/subscriptions/x", Name: "pool-7"}}} {
				s, server := named(t, &scripted{found: found}, "", "m-uid")
				s.record, s.journal.Phase = record, phase
				s.owner = tagsOf{s.request.InstanceName: "another-uid"}
				act := decided(t, s, forRemove)
				require.Contains(t, []action{nothingLeft, spareNamesake}, act, "%s, %s", name, phase)
				require.FileExists(t, server, "%s, phase %q, %d found", name, phase, len(found))
			}
		}
	}
}

// tagsOf is a cloud that knows by a server's name the UID in its tag.
type tagsOf map[string]string

func (o tagsOf) Get(_ context.Context, record map[string]any, _ string) (finder.Server, error) {
	name, _ := record["MachineName"].(string)
	if o[name] == "" {
		return finder.Server{}, nil
	}
	return finder.Server{ID: name, Name: name, Tags: map[string]string{jobrunner.TagMachineUID: o[name]}}, nil
}

// What a driver takes for none may be a cloud that does not answer: then nothing is known.
func TestNamesake_noAnswer(t *testing.T) {
	for _, tag := range []string{"m-uid", ""} {
		with := &scripted{err: errors.New("503 unavailable")}
		s, server := named(t, with, "none", tag)
		_, err := s.inquire(t.Context(), forCreate, nil)
		require.Error(t, err)
		require.Equal(t, state.PhaseCreated, s.journal.Phase, "and the state does not say that it is gone")

		s.journal.Phase = state.PhaseRecorded
		cause := fail(rkev1.CreateFailedReason, rkev1.ClassUnknown, errors.New("hm"))
		act, err := s.inquire(t.Context(), forFailure, cause)
		require.NoError(t, err)
		require.Equal(t, keep, act)
		require.Equal(t, state.PhaseRecorded, s.journal.Phase)
		require.FileExists(t, server)
	}
}

// What a driver was told by a cloud whose lists lag behind is asked again, if the server was only just asked for.
func TestRemove_lagging(t *testing.T) {
	for phase, cutOff := range map[state.Phase]bool{state.PhaseCreated: false, state.PhaseRecorded: true} {
		with := &scripted{}
		s, _ := named(t, with, "", "")
		s.request.Driver.Name = "amazonec2"
		s.profile, s.journal.Phase = clouds.Of("amazonec2"), phase
		s.record["InstanceId"] = "i-1"
		require.Equal(t, nothingLeft, decided(t, s, forRemove))
		require.Equal(t, cutOff, with.asked[0].Lost)
	}
}

// A server is looked for where it was asked for, whatever the options say now; a new one is made where they say.
func TestPlaced(t *testing.T) {
	for driver, c := range map[string]struct {
		record clouds.Record
		values map[string]any
		want   map[string]any
	}{
		"amazonec2": {clouds.Record{"Region": "eu-west-1"}, map[string]any{"amazonec2-region": "eu-north-1"}, map[string]any{"amazonec2-region": "eu-west-1"}},
		"google":    {clouds.Record{"Zone": "a", "Project": ""}, map[string]any{"google-zone": "b", "google-project": "p"}, map[string]any{"google-zone": "a", "google-project": "p"}},
		"azure": {clouds.Record{"SubscriptionID": "s1"}, map[string]any{"azure-subscription-id": "s2", "azure-resource-group": "g"},
			map[string]any{"azure-subscription-id": "s1", "azure-resource-group": "g"}},
		"openstack": {clouds.Record{"Region": "R1"}, map[string]any{"openstack-region": "R2"}, map[string]any{"openstack-region": "R1"}},
	} {
		s := &session{profile: clouds.Of(driver), record: c.record, values: c.values}
		require.Equal(t, c.values, s.placed(), "nothing was asked for yet")
		s.journal.Phase = state.PhaseIntent
		require.Equal(t, c.want, s.placed())
		s.record = nil
		require.Equal(t, c.values, s.placed())
	}
}

// A new credential renews a record, but does not move it to another subscription.
func TestCredentials_leaveThePlace(t *testing.T) {
	s := &session{profile: clouds.Of("azure"), fresh: clouds.Record{"SubscriptionID": "s2", "ClientSecret": "new"},
		request: jobrunner.Request{CredentialEnv: map[string]string{"AZURE_SUBSCRIPTION_ID": "s2", "AZURE_CLIENT_SECRET": "new"}}}
	require.Equal(t, []string{"new"}, s.credentials())
}

// TestAddName: scaleway's driver gives a server a random name unless it is told one, and nobody would find it again.
func TestAddName(t *testing.T) {
	for name, c := range map[string]struct {
		driver string
		values map[string]any
		want   any
	}{
		"no name given":         {"scaleway", map[string]any{"scaleway-name": ""}, "pool-1"},
		"the user's name":       {"scaleway", map[string]any{"scaleway-name": "mine"}, "mine"},
		"a release without it":  {"scaleway", map[string]any{}, nil},
		"a driver that does so": {"digitalocean", map[string]any{"": ""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := &session{profile: clouds.Of(c.driver), values: c.values, request: jobrunner.Request{InstanceName: "pool-1"}}
			require.NoError(t, s.addNames())
			require.Equal(t, c.want, s.values["scaleway-name"])
		})
	}
}
