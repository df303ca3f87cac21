package operation

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner/operation/finder"
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
	_, err := s.find(t.Context())
	require.NoError(t, err)
	_, err = s.search(t.Context())
	require.NoError(t, err)
	require.Equal(t, []bool{false, true}, []bool{with.asked[0].Lost, with.asked[1].Lost})
}

// Whoever cannot be told is for the user to decide; what the cloud says otherwise has its own class.
func TestAsk_failures(t *testing.T) {
	for name, c := range map[string]struct {
		err           error
		reason, class string
		mayExist      bool
	}{
		"uncertain":     {errors.Join(errors.New("x"), finder.ErrUncertain), rkev1.ServerMayExistReason, rkev1.ClassInvalid, true},
		"not allowed":   {errors.New("UnauthorizedOperation: no"), reasonLookupFailed, rkev1.ClassUnauthorized, false},
		"a proxy's":     {errors.New("status code: 503"), reasonLookupFailed, rkev1.ClassTransient, false},
		"nobody's word": {errors.New("hm"), reasonLookupFailed, rkev1.ClassUnknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := finding(t, "amazonec2", &scripted{err: c.err})
			_, err := s.search(t.Context())
			var f *failure
			require.ErrorAs(t, err, &f)
			require.Equal(t, []any{c.reason, c.class, c.mayExist}, []any{f.reason, f.class, s.mayExist})
			if c.mayExist {
				require.ErrorContains(t, err, "look at the cloud")
				require.ErrorContains(t, err, rkev1.AbandonAnnotation)
			}
		})
	}
}

// Settling looks long only for what was asked for.
func TestSettle_asks(t *testing.T) {
	for _, lost := range []bool{false, true} {
		with := &scripted{}
		s := finding(t, "azure", with)
		s.mayExist = lost
		require.NoError(t, s.settle(t.Context()))
		require.Equal(t, lost, with.asked[0].Lost)
		require.False(t, s.mayExist, "there is none")
	}
	with := &scripted{err: errors.New("hm")}
	s := finding(t, "azure", with)
	s.mayExist = true
	require.Error(t, s.settle(t.Context()))
	require.True(t, s.mayExist, "an error is not none")
}

// A driver that goes by names is not asked to remove a namesake: there is no driver here, and none is missed.
func TestRemoveAll_namesakes(t *testing.T) {
	for _, name := range []string{"azure", "google"} {
		with := &scripted{}
		require.NoError(t, finding(t, name, with).removeAll(t.Context(), true, false))
		require.Len(t, with.asked, 1)
		with.err = errors.New("hm")
		require.Error(t, finding(t, name, with).removeAll(t.Context(), true, false), "who knows nothing of the machine must be told that there is none")
		s := finding(t, name, with)
		require.NoError(t, s.removeAll(t.Context(), true, true), "whose state says that it is gone can be deleted without a credential")
		require.Contains(t, s.result.Notes[0], "of no account: hm")
	}
	with := &scripted{err: errors.New("hm")}
	require.NoError(t, finding(t, "amazonec2", with).removeAll(t.Context(), true, true))
	require.Error(t, finding(t, "amazonec2", with).removeAll(t.Context(), false, false))
	require.True(t, with.asked[1].Lost, "an answer that was lost is looked for long")
	with.err = errCancelled
	require.ErrorIs(t, finding(t, "amazonec2", with).removeAll(t.Context(), true, true), errCancelled)
}

// What is unfinished is removed, although its key is at hand.
func TestSettleFound_unfinished(t *testing.T) {
	with := &scripted{found: []finder.Server{{ID: "z/pool-1", Name: "another", Unfinished: true}}}
	s := finding(t, "google", with)
	require.NoError(t, s.makeKey(s.dir.Path("id_rsa")))
	require.NoError(t, s.settleFound(t.Context(), with.found))
	require.Equal(t, []string{"z/pool-1"}, with.removed)
	require.Equal(t, []bool{false, false}, []bool{s.adopted, s.mayExist})
	require.Equal(t, state.Phase(""), s.journal.Phase)
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
		err := s.settle(t.Context())
		require.Equal(t, waits, err != nil, text)
		if !waits {
			require.Contains(t, s.result.Notes[0], text)
		}
	}
}
