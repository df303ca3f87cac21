package operation

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation/finder"
	"github.com/drover-project/drover/jobrunner/operation/flagvalues"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

// scripted is a finder that says what it is told to.
type scripted struct {
	found   []finder.Server
	err     error
	keysErr error
	asked   []finder.Machine
	removed []string
}

func (f *scripted) Find(_ context.Context, machine finder.Machine) ([]finder.Server, error) {
	f.asked = append(f.asked, machine)
	return f.found, f.err
}

func (f *scripted) Remove(_ context.Context, server finder.Server) error {
	f.removed, f.found = append(f.removed, server.ID), nil
	return nil
}

func (f *scripted) Namesakes(context.Context, finder.Machine) ([]finder.Server, error) {
	return nil, nil
}

func (f *scripted) Sweep(context.Context, finder.Machine) error { return f.keysErr }

func finding(t *testing.T, driver string, with *scripted) *session {
	t.Helper()
	s, _ := underWay(t, driver)
	s.profile, s.finder = clouds.Of(driver), with
	return s
}

func TestSearch(t *testing.T) {
	with := &scripted{}
	s := finding(t, "amazonec2", with)
	_, err := s.find(t.Context(), false)
	require.NoError(t, err)
	_, err = s.find(t.Context(), true)
	require.NoError(t, err)
	require.Equal(t, []bool{false, true}, []bool{with.asked[0].Lost, with.asked[1].Lost})
}

// Whoever cannot be told is for the user to decide; what the cloud says otherwise has its own class.
func TestAsk_failures(t *testing.T) {
	for name, c := range map[string]struct {
		err           error
		reason, class string
		uncertain     bool
	}{
		"uncertain":     {errors.Join(errors.New("x"), finder.ErrUncertain), rkev1.ServerMayExistReason, rkev1.ClassInvalid, true},
		"not allowed":   {errors.New("UnauthorizedOperation: no"), rkev1.LookupFailedReason, rkev1.ClassUnauthorized, false},
		"a proxy's":     {errors.New("status code: 503"), rkev1.LookupFailedReason, rkev1.ClassTransient, false},
		"nobody's word": {errors.New("hm"), rkev1.LookupFailedReason, rkev1.ClassUnknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := finding(t, "amazonec2", &scripted{err: c.err})
			_, err := s.find(t.Context(), true)
			var f *failure
			require.ErrorAs(t, err, &f)
			require.Equal(t, []string{c.reason, c.class}, []string{f.reason, f.class})
			if c.uncertain {
				require.ErrorContains(t, err, "check the cloud")
				require.ErrorContains(t, err, "then drover retry")
			}
		})
	}
}

// Settling looks long only for what was asked for.
func TestSettle_asks(t *testing.T) {
	for _, lost := range []bool{false, true} {
		with := &scripted{}
		s := finding(t, "azure", with)
		if lost {
			s.advance(state.PhaseIntent)
		}
		require.Equal(t, makeNew, decided(t, s, forCreate))
		require.Equal(t, lost, with.asked[0].Lost)
		require.False(t, mayHaveServer(s.journal.Phase), "there is none")
	}
	with := &scripted{err: errors.New("hm")}
	s := finding(t, "azure", with)
	s.advance(state.PhaseIntent)
	_, err := s.inquire(t.Context(), forCreate, nil)
	require.Error(t, err)
	require.Equal(t, state.PhaseIntent, s.journal.Phase, "an error is not none")
}

// A driver that goes by names is not asked to remove a namesake: there is no driver here, and none is missed.
func TestRemove_namesakes(t *testing.T) {
	inquire := func(s *session, phase state.Phase) (action, error) {
		s.journal.Phase = phase
		return s.inquire(t.Context(), forRemove, nil)
	}
	for _, name := range []string{"azure", "google"} {
		with := &scripted{}
		_, err := inquire(finding(t, name, with), "")
		require.NoError(t, err)
		require.Len(t, with.asked, 1)
		with.err = errors.New("hm")
		_, err = inquire(finding(t, name, with), "")
		require.Error(t, err, "who knows nothing of the machine must be told that there is none")
		s := finding(t, name, with)
		_, err = inquire(s, state.PhaseGone)
		require.NoError(t, err, "whose state says that it is gone can be deleted without a credential")
		require.Contains(t, s.result.Notes[0], "this error is ignored: hm")
	}
	with := &scripted{err: errors.New("hm")}
	_, err := inquire(finding(t, "amazonec2", with), state.PhaseGone)
	require.NoError(t, err)
	_, err = inquire(finding(t, "amazonec2", with), state.PhaseIntent)
	require.Error(t, err)
	require.True(t, with.asked[1].Lost, "an answer that was lost is looked for long")
	with.err = errCancelled
	_, err = inquire(finding(t, "amazonec2", with), state.PhaseGone)
	require.ErrorIs(t, err, errCancelled)
}

func decided(t *testing.T, s *session, why purpose) action {
	t.Helper()
	act, err := s.inquire(t.Context(), why, nil)
	require.NoError(t, err)
	return act
}

// withKey gives the session the SSH key of an earlier attempt.
func withKey(t *testing.T, s *session) {
	t.Helper()
	pair, err := sshkeys.Generate(s.request.InstanceName)
	require.NoError(t, err)
	require.NoError(t, flagvalues.WritePrivate(s.dir.Path("id_rsa"), pair.Private))
}

// What is unfinished is removed, although its key is at hand.
func TestFound_unfinished(t *testing.T) {
	with := &scripted{found: []finder.Server{{ID: "z/pool-1", Name: "another", Unfinished: true}}}
	s := finding(t, "google", with)
	withKey(t, s)
	require.Equal(t, makeNew, decided(t, s, forCreate))
	require.Equal(t, []string{"z/pool-1"}, with.removed)
	require.Equal(t, state.PhaseGone, s.journal.Phase)
}

// A backup of while the server was made is older than the server, which lives since: it is not touched, and the user is told how to keep it.
func TestFound_unfinishedInABackup(t *testing.T) {
	for _, looked := range []int32{0, 9} {
		with := &scripted{found: []finder.Server{{ID: "1", Name: "pool-1", Tags: map[string]string{jobrunner.TagMachineUID: "before"}}}}
		s := finding(t, "digitalocean", with)
		s.request.Machine.UID, s.request.Tags, s.request.Looked = "now", map[string]string{jobrunner.TagMachineUID: "before"}, looked
		_, err := s.inquire(t.Context(), forCreate, nil)
		require.ErrorContains(t, err, "server 1 (pool-1), which was created for machine  (UID before) exists, and the state Secret, which was restored from a backup, records that it was never completed")
		require.Empty(t, with.removed)
		require.True(t, mayHaveServer(s.journal.Phase))
	}
}

// A key is not forgotten while the cloud may let it be removed later. What it never allows must not keep a machine for ever.
func TestSettle_waitsForKeys(t *testing.T) {
	for text, waits := range map[string]bool{
		"POST https://api.test: 503 unavailable":                                    true,
		"DELETE https://api.test: 429 Too many requests":                            true,
		"DELETE https://api.test: 422 creating this will exceed your droplet limit": true,
		"GET https://api.test: 403 You are not authorized":                          false,
		"hm": false,
	} {
		s := finding(t, "digitalocean", &scripted{keysErr: errors.New(text)})
		s.journal.Phase = state.PhaseIntent
		_, err := s.inquire(t.Context(), forCreate, nil)
		require.Equal(t, waits, err != nil, text)
		if !waits {
			require.Contains(t, s.result.Notes[0], text)
		}
	}
	some := errors.Join(nil, errors.Join(errors.New("GET https://api.test: 401 unauthorized"), errors.New("DELETE https://api.test: 500 Server Error")))
	s := finding(t, "digitalocean", &scripted{keysErr: some})
	s.journal.Phase = state.PhaseIntent
	_, err := s.inquire(t.Context(), forCreate, nil)
	require.ErrorContains(t, err, "500", "one of several may go later")
}

// Where the cloud cannot be asked for the server of a provider ID, no lost state lets it be said to be gone.
func TestCheckFormer_unasked(t *testing.T) {
	s := finding(t, "openstack", &scripted{})
	require.NoError(t, s.checkFormer(t.Context()), "nothing names a server")
	s.request.ProviderID = "openstack:///u"
	require.ErrorContains(t, s.checkFormer(t.Context()), "cannot be queried for server openstack:///u")
	s.foundOurs = true
	require.NoError(t, s.checkFormer(t.Context()))
}

// toldOwner is an owner that says what it is told to.
type toldOwner struct {
	finder.Owner
	server finder.Server
	err    error
}

func (o toldOwner) Get(context.Context, map[string]any, string) (finder.Server, error) {
	return o.server, o.err
}

// TestCheckGiven: a server that the provider ID names is left to the user, by whatever tag, unless it is the one that was removed.
func TestCheckGiven(t *testing.T) {
	mine, others := map[string]string{jobrunner.TagMachineUID: "m-uid"}, map[string]string{jobrunner.TagMachineUID: "old"}
	for name, c := range map[string]struct {
		owner    toldOwner
		found    bool
		recorded clouds.Record
		says     string
	}{
		"not there":                     {},
		"another's":                     {owner: toldOwner{server: finder.Server{ID: "7", Tags: others}}, says: "created for machine  (UID old)"},
		"another's beside ours":         {owner: toldOwner{server: finder.Server{ID: "7", Tags: others}}, found: true, says: "created for machine  (UID old)"},
		"without a tag":                 {owner: toldOwner{server: finder.Server{ID: "7"}}, says: "no tag of a machine"},
		"ours, which the finder missed": {owner: toldOwner{server: finder.Server{ID: "7", Tags: mine}}, says: "its provider ID names server 7"},
		"ours, and removed":             {owner: toldOwner{server: finder.Server{ID: "7", Tags: mine}}, found: true},
		"ours, of the record":           {owner: toldOwner{server: finder.Server{ID: "7", Tags: mine}}, recorded: clouds.Record{"DropletID": "7"}},
		"no answer":                     {owner: toldOwner{err: errors.New("x")}, says: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			s := finding(t, "digitalocean", &scripted{})
			s.request.Tags, s.request.Machine.UID = map[string]string{jobrunner.TagMachineUID: "m-uid"}, "m-uid"
			s.owner, s.foundOurs, s.record, s.fresh = c.owner, c.found, c.recorded, clouds.Record{}
			require.NoError(t, s.checkGiven(t.Context()), "no provider ID names anything")
			s.request.ProviderID = "digitalocean://7"
			if c.says == "" {
				require.NoError(t, s.checkGiven(t.Context()))
				return
			}
			require.ErrorContains(t, s.checkGiven(t.Context()), c.says)
		})
	}
}
