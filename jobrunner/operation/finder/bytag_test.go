package finder

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
)

const (
	ourKey    = "ssh-ed25519 AAAAours pool-1"
	othersKey = "ssh-ed25519 AAAAothers pool-1"
)

// lost is a machine whose server was asked for.
func lost(uid string) Machine {
	return Machine{InstanceName: "pool-1", Tags: machineTags(uid), PublicKey: []byte(ourKey + "\n"), Lost: true}
}

// sought is one that nothing was asked for yet.
func sought(uid string) Machine {
	machine := lost(uid)
	machine.Lost = false
	return machine
}

// pairsOf are a machine's tags as the cloud has them after the driver's flag wrote them.
func pairsOf(driver, uid string) map[string]string {
	pairs := map[string]string{}
	items := clouds.Of(driver).Tags.Items(machineTags(uid))
	for at := 0; at < len(items); at += 2 {
		pairs[items[at]] = items[at+1]
	}
	return pairs
}

// impatient is a finder that does not wait; waits counts how often it would have.
func impatient(t *testing.T, driver string, from cloud) (found Finder, waits *[]time.Duration) {
	t.Helper()
	waits = &[]time.Duration{}
	return ByTag{cloud: from, driver: driver, pause: func(_ context.Context, wait time.Duration) error {
		*waits = append(*waits, wait)
		return nil
	}}, waits
}

func ids(found []Server) []string {
	out := []string{}
	for _, server := range found {
		out = append(out, server.ID)
	}
	return out
}

// plain are servers without what only a cloud tells of them.
func plain(found []Server) []Server {
	out := []Server{}
	for _, server := range found {
		out = append(out, Server{ID: server.ID, Name: server.Name, Record: server.Record, Unfinished: server.Unfinished})
	}
	return out
}

// listed is a server with the tag of a machine's UID.
func listed(id, uid string) Server {
	return Server{ID: id, Tags: map[string]string{jobrunner.TagMachineUID: uid}}
}

// requireClass checks that an error is classified as the driver's own would be.
func requireClass(t *testing.T, driver, class string, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, class, clouds.Of(driver).Classify(err.Error()), err.Error())
	require.False(t, class == rkev1.ClassUnknown, "nobody knows what to do about it: %v", err)
}

// script is a cloud that lists one answer after the other, the last one for ever.
type script struct {
	answers [][]Server
	err     error
	asked   []string
	removed []Server
	swept   []Machine
}

func (s *script) list(_ context.Context, _, uid string) ([]Server, error) {
	s.asked = append(s.asked, uid)
	if s.err != nil || len(s.answers) == 0 {
		return nil, s.err
	}
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	return answer, nil
}

func (s *script) get(_ context.Context, server Server) (Server, error) { return server, nil }

func (s *script) destroy(_ context.Context, server Server) error {
	s.removed = append(s.removed, server)
	return s.err
}

func (s *script) Within(context.Context) string { return "here" }

func (s *script) Sweep(_ context.Context, machine Machine) error {
	s.swept = append(s.swept, machine)
	return s.err
}

func one(id, uid string) Server {
	return Server{ID: id, Name: "pool-1", Tags: map[string]string{jobrunner.TagMachineUID: uid}, Record: map[string]any{"x": id}}
}

// ofName is a server with the tag of a machine's name.
func ofName(name string) Server {
	server := one("1", "m")
	server.Tags[jobrunner.TagMachine] = name
	return server
}

// inherited is a machine whose state says that its servers have the tag of an earlier one.
func inherited(name string) Machine {
	machine := sought("m")
	machine.Inherited, machine.Tags = true, map[string]string{jobrunner.TagMachineUID: "m", jobrunner.TagMachine: name}
	return machine
}

// Where tags are words, one that is cut says the same as ours that is cut alike, and of several the machine's counts.
func TestMachine_Owns_words(t *testing.T) {
	long := strings.Repeat("n", 60)
	for word, ours := range map[string]bool{
		"drover-machine:" + long[:35]:       true,
		"drover-machine:" + long[:34]:       false,
		"drover-machine:" + long[:34] + "x": false,
		"other-machine:" + long[:35]:        false,
	} {
		words := []string{"drover-uid:m", "drover-machine:x", word}
		server := Server{ID: "1", Tags: wordTags(linodeName, words), words: words}
		require.Equal(t, ours, inherited(long).Owns(linodeName, server), word)
	}
}

func TestByTag_Find(t *testing.T) {
	unfinished := one("1", "m")
	unfinished.keys = []string{}
	foreign, ours, broken := one("1", "m"), one("1", "m"), one("1", "m")
	foreign.keys, ours.keys, broken.broken = []string{othersKey}, []string{othersKey, ourKey}, true
	for name, c := range map[string]struct {
		listed     Server
		found      bool
		unfinished bool
		machine    Machine
	}{
		"ours":                           {listed: one("1", "m"), found: true, machine: sought("m")},
		"another's, unasked for":         {listed: one("1", "m2"), machine: sought("m")},
		"no machine's":                   {listed: one("1", ""), machine: sought("m")},
		"one that lets nobody in":        {listed: unfinished, found: true, unfinished: true, machine: sought("m")},
		"one that lets others in":        {listed: foreign, found: true, unfinished: true, machine: sought("m")},
		"one that lets us in too":        {listed: ours, found: true, machine: sought("m")},
		"one that is going":              {listed: broken, found: true, unfinished: true, machine: sought("m")},
		"a machine whose key is lost":    {listed: foreign, found: true, machine: Machine{Tags: machineTags("m")}},
		"a UID that the tag writes so":   {listed: one("1", "m--x"), found: true, machine: sought("m%x")},
		"a UID that the tag writes not":  {listed: one("1", "m%x"), machine: sought("m%x")},
		"inherited, of our name":         {listed: ofName("team-m1"), found: true, machine: inherited("team-m1")},
		"inherited, as the flag cuts it": {listed: ofName(strings.Repeat("n", 63)), found: true, machine: inherited(strings.Repeat("N", 70))},
		"inherited, of another name":     {listed: ofName("victims-m1"), machine: inherited("team-m1")},
		"inherited, of no name":          {listed: one("1", "m"), machine: inherited("team-m1")},
		"inherited, by no name":          {listed: one("1", "m"), machine: inherited("")},
	} {
		t.Run(name, func(t *testing.T) {
			finder, waits := impatient(t, googleName, &script{answers: [][]Server{{c.listed}}})
			found, err := finder.Find(t.Context(), c.machine)
			require.NoError(t, err)
			require.Empty(t, *waits, "who asked for nothing need not wait")
			if c.listed.Tags[jobrunner.TagMachineUID] == "m--x" {
				c.found = false // each sign becomes one dash
			}
			if !c.found {
				require.Empty(t, found)
				return
			}
			require.Equal(t, []Server{{ID: "1", Name: "pool-1", Record: c.listed.Record, Unfinished: c.unfinished}}, plain(found))
		})
	}
}

func TestByTag_Find_refuses(t *testing.T) {
	for name, tags := range map[string]map[string]string{"no tags": nil, "no UID": {jobrunner.TagMachine: "x"}, "an empty UID": {jobrunner.TagMachineUID: ""}} {
		t.Run(name, func(t *testing.T) {
			s := &script{answers: [][]Server{{one("1", "")}}}
			finder, _ := impatient(t, amazonName, s)
			_, err := finder.Find(t.Context(), Machine{InstanceName: "pool-1", Tags: tags, Lost: true})
			require.ErrorIs(t, err, errNoTag)
			require.Empty(t, s.asked, "without a tag, everything would be found")
		})
	}
}

// A cloud may list a server some time after it agreed to make it.
func TestByTag_Find_waitsForALostAnswer(t *testing.T) {
	late := &script{answers: [][]Server{nil, nil, {one("1", "m")}}}
	finder, waits := impatient(t, amazonName, late)
	found, err := finder.Find(t.Context(), lost("m"))
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, ids(found))
	require.Equal(t, []time.Duration{2 * time.Second, 4 * time.Second}, *waits)

	never := &script{}
	finder, waits = impatient(t, amazonName, never)
	found, err = finder.Find(t.Context(), lost("m"))
	require.NoError(t, err)
	require.Empty(t, found)
	require.Equal(t, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}, *waits)
	require.Equal(t, []string{"m", "m", "m", "m", "m"}, never.asked)

	finder, _ = impatient(t, amazonName, &script{err: errors.New("no")})
	_, err = finder.Find(t.Context(), lost("m"))
	require.EqualError(t, err, "looking for servers by tag: no", "an error is not waited for")

	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the pod ends"))
	_, err = ByTag{cloud: &script{}, driver: amazonName, pause: Pause}.Find(gone, lost("m"))
	require.EqualError(t, err, "the pod ends")
	_, err = ByTag{cloud: &script{err: errors.New("RequestCanceled")}, driver: amazonName, pause: Pause}.Find(gone, lost("m"))
	require.EqualError(t, err, "the pod ends", "it is no failure of the cloud's")
	require.NoError(t, Pause(t.Context(), 0))
}

func TestByTag_Remove(t *testing.T) {
	s := &script{}
	finder, _ := impatient(t, amazonName, s)
	require.NoError(t, finder.Remove(t.Context(), listed("1", "m")))
	for _, server := range []Server{{ID: "1"}, listed("", "m"), {}} {
		require.ErrorIs(t, finder.Remove(t.Context(), server), errNoTag)
	}
	require.Equal(t, []Server{listed("1", "m")}, s.removed, "what carries no tag is nobody's to remove")
	require.NoError(t, finder.Sweep(t.Context(), sought("m")))
	require.Equal(t, []Machine{sought("m")}, s.swept)
	s.err = errNotOurs
	require.EqualError(t, finder.Remove(t.Context(), listed("1", "m")), "removing server 1: it no longer has the tag of its machine")
}

func TestByTag_List(t *testing.T) {
	s := &script{answers: [][]Server{{one("1", "m"), one("2", "n")}}}
	found, err := ByTag{cloud: s}.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2"}, ids(found))
	require.Equal(t, []string{""}, s.asked)
	require.Equal(t, "here", ByTag{cloud: s}.Within(t.Context()))
	s.err = errTooMany
	found, err = ByTag{cloud: s}.List(t.Context())
	require.ErrorIs(t, err, errTooMany)
	require.Empty(t, found, "half a list is none")
}

func TestFor_needs_the_drivers_own_options(t *testing.T) {
	for _, name := range []string{amazonName, azureName, googleName, openStackName} {
		values := defaults(t, name, nil)
		require.NotNil(t, For(name, values), name)
		missing := 0
		for flag := range values {
			some := flags{}
			for other, value := range values {
				if other != flag {
					some[other] = value
				}
			}
			if For(name, some) == nil {
				missing++
			}
		}
		require.GreaterOrEqual(t, missing, 2, name)
	}
	options := flags{"a": "x", "b": true, "c": 3}
	require.Equal(t, []any{"x", "", true, false, 3, 0},
		[]any{options.text("a"), options.text("b"), valueOf[bool](options, "b"), valueOf[bool](options, "a"), valueOf[int](options, "c"), valueOf[int](options, "z")})
}
