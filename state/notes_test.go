package state_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/state"
)

// notes are all that the manager writes on a state, as annotations.
func notes(t *testing.T) map[string]string {
	t.Helper()
	annotations, err := state.Notes{
		Claim:  state.Claim{Operation: state.Create, Attempt: 4, Try: 2, Hash: "0123456789abcdef"},
		Driver: state.DriverRef{Name: "linode", URL: "https://drivers.example/linode", Checksum: "c", Digest: "d"}, InstanceName: "pool1-abc",
		TaggedUID: "uid", PodAccount: "pool1-abc-machine", Lost: true,
	}.Annotations()
	require.NoError(t, err)
	return annotations
}

func TestReadJournal(t *testing.T) {
	for name, tt := range map[string]struct {
		text, instance, wantErr string
		phase                   state.Phase
	}{
		"intent":          {text: `{"phase":"Intent","instanceName":"pool1-abc"}`, phase: state.PhaseIntent, instance: "pool1-abc"},
		"gone":            {text: `{"phase":"Gone"}`, phase: state.PhaseGone},
		"no name of ours": {text: `{"phase":"Recorded","instanceName":"../Etc"}`, phase: state.PhaseRecorded},
		"name too long":   {text: `{"phase":"Created","instanceName":"` + strings.Repeat("a", 64) + `"}`, phase: state.PhaseCreated},
		"unknown phase":   {text: `{"phase":"Dreaming"}`, wantErr: `unknown phase "Dreaming"`},
		"no phase":        {text: `{}`, wantErr: "unknown phase"},
		"no JSON":         {text: `]`, wantErr: "reading journal.json"},
		"too long":        {text: strings.Repeat(" ", 64<<10+1), wantErr: "more than the 65536 allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			journal, err := state.ReadJournal(map[string][]byte{state.JournalKey: []byte(tt.text)})
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr)
				require.False(t, errors.Is(err, state.ErrNoDocument), "an unreadable journal is not an absent one")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.phase, journal.Phase)
			require.Equal(t, tt.instance, journal.InstanceName)
		})
	}
	_, err := state.ReadJournal(map[string][]byte{state.JournalKey: {}})
	require.True(t, errors.Is(err, state.ErrNoDocument))
}

func TestRead_instanceName(t *testing.T) {
	named := func(annotations map[string]string, journal string) string {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
		if journal != "" {
			secret.Data = map[string][]byte{state.JournalKey: []byte(journal)}
		}
		return state.Read(secret).InstanceName
	}
	require.Equal(t, "pool1-abc", named(notes(t), ""))
	require.Equal(t, "as-made", named(notes(t), `{"phase":"Created","instanceName":"as-made"}`), "the journal is written where the server is made")
	require.Equal(t, "pool1-abc", named(notes(t), `{"phase":"Created"}`))
	require.Equal(t, "pool1-abc", named(notes(t), "{"))
	require.Empty(t, named(nil, ""))
	for _, junk := range []string{"../Etc", "a b", strings.Repeat("a", 64), "a\n"} {
		require.Empty(t, named(map[string]string{"drover.cattle.io/instance-name": junk}, ""), "%q", junk)
	}
}

func TestReadDriver(t *testing.T) {
	for _, bad := range []string{"", "{", "{}", `{"name":""}`, `[]`, `{"name":"../x"}`, `{"name":"` + strings.Repeat("a", 64) + `"}`,
		`{"name":"acme","url":"https://` + strings.Repeat("a", 2048) + `"}`, `{"name":"acme","checksum":"` + strings.Repeat("a", 129) + `"}`,
		`{"name":"acme","digest":"` + strings.Repeat("a", 129) + `"}`} {
		_, ok := state.ReadDriver(map[string]string{"drover.cattle.io/driver": bad})
		require.False(t, ok, bad)
	}
	driver, ok := state.ReadDriver(notes(t))
	require.True(t, ok)
	require.Equal(t, state.DriverRef{Name: "linode", URL: "https://drivers.example/linode", Checksum: "c", Digest: "d"}, driver)
}

func TestReadClaim_triesCountFromOne(t *testing.T) {
	for _, try := range []string{"", "0", "-3", "many", "99999999999", "2147483647"} {
		claim, ok := state.ReadClaim(map[string]string{"drover.cattle.io/claimed-operation": "create",
			"drover.cattle.io/claimed-attempt": "2", "drover.cattle.io/claimed-try": try})
		require.True(t, ok)
		require.EqualValues(t, 1, claim.Try, try)
		require.EqualValues(t, 2, claim.Attempt)
	}
	_, ok := state.ReadClaim(map[string]string{"drover.cattle.io/claimed-operation": "probe", "drover.cattle.io/claimed-attempt": "1"})
	require.False(t, ok, "a probe claims nothing")
}

// A copy of a state says the same of its server, and nothing that others have written.
func TestNotes(t *testing.T) {
	written := notes(t)
	require.Equal(t, written, state.CopyNotes(written))
	foreign := maps.Clone(written)
	foreign["example.org/replicate-to"] = "everywhere"
	require.Equal(t, written, state.CopyNotes(foreign))
}

// A pod can write any number into its state; what counts by it must neither overflow nor run for long.
func TestReadClaim_doesNotBelieveEveryNumber(t *testing.T) {
	for number, believed := range map[string]bool{"1": true, "100000": true, "100001": false, "2147483647": false, "0": false, "-1": false, "9999999999": false} {
		claim, ok := state.ReadClaim(map[string]string{"drover.cattle.io/claimed-operation": "create", "drover.cattle.io/claimed-attempt": number})
		require.Equal(t, believed, ok, number)
		require.LessOrEqual(t, claim.Attempt, int32(state.MaxAttempt))
	}
	claim := state.Claim{Operation: state.Remove, Attempt: state.MaxAttempt}
	require.EqualValues(t, 1, claim.Again(1).Attempt, "a number that is written can be read again")
}

func TestReadCredential(t *testing.T) {
	for text, why := range map[string]string{"": "there is none", `null`: "it says nothing", `{}`: "without a name it is none",
		`{"name":"` + strings.Repeat("a", 318) + `"}`: "the machine's status takes no such name"} {
		_, err := state.ReadCredential(map[string][]byte{state.CredentialKey: []byte(text)})
		require.True(t, errors.Is(err, state.ErrNoDocument), why)
	}
	_, err := state.ReadCredential(map[string][]byte{state.CredentialKey: []byte(`{"env":{"TOKEN":"hidden"},`)})
	require.ErrorContains(t, err, "credential.json")
	require.NotContains(t, err.Error(), "hidden")
	credential, err := state.ReadCredential(map[string][]byte{state.CredentialKey: []byte(`{"name":"cloud","env":{"A":"b"},"files":{"f":"Yw=="}}`)})
	require.NoError(t, err)
	require.Equal(t, state.Credential{Name: "cloud", Env: map[string]string{"A": "b"}, Files: map[string][]byte{"f": []byte("c")}}, credential)
}
