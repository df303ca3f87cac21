package operation

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation/plugin"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/userdata"
)

func TestTyped(t *testing.T) {
	for name, c := range map[string]struct {
		kind  crdgen.FlagType
		given any
		want  any
		err   string
	}{
		"no text":                {kind: crdgen.String, want: ""},
		"text":                   {kind: crdgen.String, given: "a", want: "a"},
		"a number for a text":    {kind: crdgen.String, given: float64(1234567), want: "1234567"},
		"a truth for a text":     {kind: crdgen.String, given: true, want: "true"},
		"a list for a text":      {kind: crdgen.String, given: []any{"MARKER"}, err: "must be text"},
		"no number":              {kind: crdgen.Int, want: 0},
		"empty for a number":     {kind: crdgen.Int, given: "", want: 0},
		"a number as text":       {kind: crdgen.Int, given: " 42\n", want: 42},
		"a negative number":      {kind: crdgen.Int, given: float64(-1), want: -1},
		"a fraction":             {kind: crdgen.Int, given: 0.5, err: "whole number"},
		"beyond what floats can": {kind: crdgen.Int, given: float64(1 << 60), err: "whole number"},
		"a truth for a number":   {kind: crdgen.Int, given: true, err: "whole number"},
		"words for a number":     {kind: crdgen.Int, given: "MARKER", err: "whole number"},
		"no truth":               {kind: crdgen.Bool, want: false},
		"empty for a truth":      {kind: crdgen.Bool, given: "", want: false},
		"a truth as text":        {kind: crdgen.Bool, given: "T", want: true},
		"yes is no truth":        {kind: crdgen.Bool, given: "yes MARKER", err: "true or false"},
		"a number for a truth":   {kind: crdgen.Bool, given: float64(1), err: "true or false"},
		"no list":                {kind: crdgen.StringSlice, want: []string{}},
		"empty for a list":       {kind: crdgen.StringSlice, given: "", want: []string{}},
		"a list as text":         {kind: crdgen.StringSlice, given: "a,b", want: []string{"a", "b"}},
		"an empty list":          {kind: crdgen.StringSlice, given: []any{}, want: []string{}},
		"numbers in a list":      {kind: crdgen.StringSlice, given: []any{"a", float64(1)}, err: "list of texts"},
		"a number for a list":    {kind: crdgen.StringSlice, given: float64(1), err: "list of texts"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := typed(c.kind, c.given)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.NotContains(t, err.Error(), "MARKER")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestFlagValues_order(t *testing.T) {
	flag := crdgen.Flag{Name: "x", Type: crdgen.String, EnvVar: "X, Y", Default: "default"}
	env := map[string]string{"Y": "environment", "": "nothing"}
	for name, c := range map[string]struct {
		request jobrunner.Request
		files   map[string]string
		want    string
	}{
		"the default":                 {want: "default"},
		"the environment":             {request: jobrunner.Request{CredentialEnv: env}, want: "environment"},
		"the option":                  {request: jobrunner.Request{CredentialEnv: env, Options: map[string]any{"x": "option"}}, want: "option"},
		"an option that is empty":     {request: jobrunner.Request{CredentialEnv: env, Options: map[string]any{"x": ""}}, want: ""},
		"an option that says nothing": {request: jobrunner.Request{CredentialEnv: env, Options: map[string]any{"x": nil}}, want: "environment"},
		"the file":                    {request: jobrunner.Request{Options: map[string]any{"x": "option"}}, files: map[string]string{"x": "/file"}, want: "/file"},
	} {
		t.Run(name, func(t *testing.T) {
			values, err := flagValues([]crdgen.Flag{flag}, c.request, c.files, false)
			require.NoError(t, err)
			require.Equal(t, c.want, values["x"])
		})
	}
	_, err := flagValues([]crdgen.Flag{flag}, jobrunner.Request{Driver: state.DriverRef{Name: "acme"}, Options: map[string]any{"z": 1}}, nil, false)
	require.ErrorContains(t, err, "the driver acme has no option z")
}

func TestDriverFailure(t *testing.T) {
	s := &session{profile: clouds.Of("digitalocean"), request: jobrunner.Request{Driver: state.DriverRef{Name: "digitalocean"}}}
	for name, c := range map[string]struct {
		err           error
		reason, class string
	}{
		"the driver's words":      {&plugin.Error{Text: "422 will exceed your droplet limit"}, reasonCreateFailed, rkev1.ClassQuota},
		"words nobody knows":      {errors.New("hm"), reasonCreateFailed, rkev1.ClassUnknown},
		"no answer":               {fmt.Errorf("asking: %w", plugin.ErrUnresponsive), reasonUnresponsive, rkev1.ClassUnknown},
		"no answer, with a class": {fmt.Errorf("%w: 401 unauthorized", plugin.ErrUnresponsive), reasonUnresponsive, rkev1.ClassUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.driverFailure(reasonCreateFailed, c.err)
			var f *failure
			require.ErrorAs(t, got, &f)
			require.Equal(t, []string{c.reason, c.class}, []string{f.reason, f.class})
			require.ErrorIs(t, got, c.err)
			require.Equal(t, c.err.Error(), got.Error())
		})
	}
	for _, err := range []error{context.Canceled, fmt.Errorf("x: %w", errCancelled)} {
		require.Equal(t, err, s.driverFailure(reasonCreateFailed, err), "a cancellation is no failure of the driver")
	}
	require.False(t, cancelled(context.DeadlineExceeded))
}

func TestUserDataFailure(t *testing.T) {
	for err, reason := range map[error]string{
		&userdata.TooLargeError{Driver: "x", Size: 2, Limit: 1}: rkev1.UserDataTooLargeReason,
		userdata.ErrCannotMerge:                                 reasonUserDataInvalid,
	} {
		var f *failure
		require.ErrorAs(t, userDataFailure(fmt.Errorf("x: %w", err)), &f)
		require.Equal(t, reason, f.reason)
		require.Equal(t, rkev1.ClassInvalid, f.class, "trying again does not help")
	}
}

func TestNamesServer(t *testing.T) {
	full := clouds.Record{"DropletID": "7", "MachineName": "m1", "ServerUUID": "u"}
	for name, c := range map[string]struct {
		driver, template string
		phase            state.Phase
		record           clouds.Record
		want             bool
	}{
		"no record":                              {driver: "digitalocean"},
		"an id":                                  {driver: "digitalocean", record: full, want: true},
		"no id yet":                              {driver: "digitalocean", record: clouds.Record{"DropletID": ""}},
		"a driver without servers":               {driver: "generic", record: full, phase: state.PhaseRecorded},
		"by name, before it was recorded":        {driver: "azure", record: full, phase: state.PhaseIntent},
		"by name, after it was recorded":         {driver: "azure", record: full, phase: state.PhaseRecorded, want: true},
		"a template that can be filled":          {driver: "acme", template: "x://{ServerUUID}", record: full, want: true},
		"a template that cannot":                 {driver: "acme", template: "x://{Missing}", record: full, phase: state.PhaseRecorded},
		"nothing to go by, before it is written": {driver: "acme", record: full, phase: state.PhaseIntent},
		"nothing to go by, after it is written":  {driver: "acme", record: full, phase: state.PhaseRecorded, want: true},
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
	for _, want := range []string{"pool-1", "acme", "look at the cloud", "delete this machine and abandon it"} {
		require.ErrorContains(t, f, want)
	}
}

func TestPause_ends_with_the_context(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCancelled)
	require.ErrorIs(t, pause(ctx, 1<<62), errCancelled)
	require.NoError(t, pause(t.Context(), 0))
}
