package operation

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation/plugin"
	"github.com/drover-project/drover/state"
)

func TestDriverFailure(t *testing.T) {
	s := &session{profile: clouds.Of("digitalocean"), request: jobrunner.Request{
		Driver: state.DriverRef{Name: "digitalocean"}, InstanceName: "unauthorized-1", Machine: jobrunner.MachineRef{Name: "429"}}}
	for name, c := range map[string]struct {
		err           error
		reason, class string
	}{
		"the driver's words":      {&plugin.Error{Text: "422 will exceed your droplet limit"}, rkev1.CreateFailedReason, rkev1.ClassQuota},
		"words nobody knows":      {errors.New("hm"), rkev1.CreateFailedReason, rkev1.ClassUnknown},
		"names are no words":      {&plugin.Error{Text: "server unauthorized-1: will exceed your droplet limit"}, rkev1.CreateFailedReason, rkev1.ClassQuota},
		"short names may be":      {&plugin.Error{Text: "429 Too many requests"}, rkev1.CreateFailedReason, rkev1.ClassThrottled},
		"no answer":               {fmt.Errorf("asking: %w", plugin.ErrUnresponsive), rkev1.DriverUnresponsiveReason, rkev1.ClassUnknown},
		"no answer, with a class": {fmt.Errorf("%w: 401 unauthorized", plugin.ErrUnresponsive), rkev1.DriverUnresponsiveReason, rkev1.ClassUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.driverFailure(rkev1.CreateFailedReason, c.err)
			var f *failure
			require.ErrorAs(t, got, &f)
			require.Equal(t, []string{c.reason, c.class}, []string{f.reason, f.class})
			require.ErrorIs(t, got, c.err)
			require.Equal(t, c.err.Error(), got.Error())
		})
	}
	for _, err := range []error{context.Canceled, fmt.Errorf("x: %w", errCancelled)} {
		require.Equal(t, err, s.driverFailure(rkev1.CreateFailedReason, err), "a cancellation is no failure of the driver")
	}
	require.False(t, cancelled(context.DeadlineExceeded))
}

func TestNamesServer(t *testing.T) {
	full := clouds.Record{"DropletID": "7", "MachineName": "m1", "ServerUUID": "u"}
	for name, c := range map[string]struct {
		driver, template string
		phase            state.Phase
		record           clouds.Record
		want             bool
	}{
		"no record":                                  {driver: "digitalocean"},
		"an id":                                      {driver: "digitalocean", record: full, want: true},
		"no id yet":                                  {driver: "digitalocean", record: clouds.Record{"DropletID": ""}},
		"a driver without servers":                   {driver: "generic", record: full, phase: state.PhaseRecorded},
		"by name, before it was recorded":            {driver: "azure", record: full, phase: state.PhaseIntent},
		"by name, after it was recorded":             {driver: "azure", record: full, phase: state.PhaseRecorded, want: true},
		"a template that can be filled":              {driver: "acme", template: "x://{ServerUUID}", record: full, want: true},
		"a template that cannot":                     {driver: "acme", template: "x://{Missing}", record: full, phase: state.PhaseIntent},
		"one that cannot, after it is written":       {driver: "acme", template: "x://{Missing}", record: full, phase: state.PhaseRecorded},
		"one that cannot, after the driver was done": {driver: "acme", template: "x://{Missing}", record: full, phase: state.PhaseCreated, want: true},
		"one that cannot, with an address":           {driver: "acme", template: "x://{Missing}", record: clouds.Record{"IPAddress": "198.18.7.7"}, phase: state.PhaseIntent, want: true},
		"nothing to go by, before it is written":     {driver: "acme", record: full, phase: state.PhaseIntent},
		"nothing to go by, after it is written":      {driver: "acme", record: full, phase: state.PhaseRecorded},
		"nothing to go by, while it is removed":      {driver: "acme", record: full, phase: state.PhaseCreated, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &session{profile: clouds.Of(c.driver), request: jobrunner.Request{ProviderIDTemplate: c.template}}
			s.journal.Phase = c.phase
			require.Equal(t, c.want, s.names(c.record, forCreate) >= namesServer)
		})
	}
}

func TestAmbiguous_says_what_to_do(t *testing.T) {
	s := &session{request: jobrunner.Request{InstanceName: "pool-1", Driver: state.DriverRef{Name: "acme"}}}
	var f *failure
	q := &inquiry{session: s}
	require.ErrorAs(t, q.uncertain(), &f)
	require.Equal(t, rkev1.ServerMayExistReason, f.reason)
	require.EqualError(t, f, "an earlier attempt requested server pool-1 from the cloud, and the result is unknown; driver acme cannot look for it: check the cloud, and "+
		"remove the server there if it exists, then drover retry")
}
