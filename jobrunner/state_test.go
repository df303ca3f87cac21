package jobrunner_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
)

func TestReadJournal(t *testing.T) {
	for name, tt := range map[string]struct {
		text, instance, wantErr string
		phase                   jobrunner.JournalPhase
	}{
		"intent":          {text: `{"phase":"Intent","instanceName":"pool1-abc"}`, phase: jobrunner.PhaseIntent, instance: "pool1-abc"},
		"gone":            {text: `{"phase":"Gone"}`, phase: jobrunner.PhaseGone},
		"no name of ours": {text: `{"phase":"Recorded","instanceName":"../Etc"}`, phase: jobrunner.PhaseRecorded},
		"name too long":   {text: `{"phase":"Created","instanceName":"` + strings.Repeat("a", 64) + `"}`, phase: jobrunner.PhaseCreated},
		"unknown phase":   {text: `{"phase":"Dreaming"}`, wantErr: `unknown phase "Dreaming"`},
		"no phase":        {text: `{}`, wantErr: "unknown phase"},
		"no JSON":         {text: `]`, wantErr: "reading journal.json"},
		"too long":        {text: strings.Repeat(" ", 64<<10+1), wantErr: "more than the 65536 allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			journal, err := jobrunner.ReadJournal(map[string][]byte{jobrunner.JournalKey: []byte(tt.text)})
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr)
				require.False(t, jobrunner.IsNoDocument(err), "an unreadable journal is not an absent one")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.phase, journal.Phase)
			require.Equal(t, tt.instance, journal.InstanceName)
		})
	}
	_, err := jobrunner.ReadJournal(map[string][]byte{jobrunner.JournalKey: {}})
	require.True(t, jobrunner.IsNoDocument(err))
}

func TestReadInstanceName(t *testing.T) {
	annotations := state(t, task(jobrunner.Create)).Annotations
	journal := func(name string) map[string][]byte {
		return map[string][]byte{jobrunner.JournalKey: []byte(`{"phase":"Created","instanceName":"` + name + `"}`)}
	}
	require.Equal(t, "pool1-abc", jobrunner.ReadInstanceName(annotations, nil))
	require.Equal(t, "as-made", jobrunner.ReadInstanceName(annotations, journal("as-made")), "the journal is written where the server is made")
	require.Equal(t, "pool1-abc", jobrunner.ReadInstanceName(annotations, journal("")))
	require.Equal(t, "pool1-abc", jobrunner.ReadInstanceName(annotations, map[string][]byte{jobrunner.JournalKey: []byte("{")}))
	require.Empty(t, jobrunner.ReadInstanceName(nil, nil))
	for _, junk := range []string{"../Etc", "a b", strings.Repeat("a", 64), "a\n"} {
		require.Empty(t, jobrunner.ReadInstanceName(map[string]string{"drover.cattle.io/instance-name": junk}, nil), "%q", junk)
	}
}

func TestReadDriver(t *testing.T) {
	for _, bad := range []string{"", "{", "{}", `{"name":""}`, `[]`, `{"name":"../x"}`, `{"name":"` + strings.Repeat("a", 64) + `"}`,
		`{"name":"acme","url":"https://` + strings.Repeat("a", 2048) + `"}`, `{"name":"acme","checksum":"` + strings.Repeat("a", 129) + `"}`,
		`{"name":"acme","digest":"` + strings.Repeat("a", 129) + `"}`} {
		_, ok := jobrunner.ReadDriver(map[string]string{"drover.cattle.io/driver": bad})
		require.False(t, ok, bad)
	}
	driver, ok := jobrunner.ReadDriver(state(t, probe()).Annotations)
	require.True(t, ok)
	require.Equal(t, probe().Request.Driver, driver)
}

func TestReadClaim_triesCountFromOne(t *testing.T) {
	for _, try := range []string{"", "0", "-3", "many", "99999999999", "2147483647"} {
		claim, ok := jobrunner.ReadClaim(map[string]string{"drover.cattle.io/claimed-operation": "create",
			"drover.cattle.io/claimed-attempt": "2", "drover.cattle.io/claimed-try": try})
		require.True(t, ok)
		require.EqualValues(t, 1, claim.Try, try)
		require.EqualValues(t, 2, claim.Attempt)
	}
	_, ok := jobrunner.ReadClaim(map[string]string{"drover.cattle.io/claimed-operation": "probe", "drover.cattle.io/claimed-attempt": "1"})
	require.False(t, ok, "a probe claims nothing")
}

// A copy of a state says the same of its server, and nothing that others have written.
func TestNotes(t *testing.T) {
	written := state(t, task(jobrunner.Create)).Annotations
	require.Equal(t, written, jobrunner.Notes(written))
	foreign := maps.Clone(written)
	foreign["example.org/replicate-to"] = "everywhere"
	require.Equal(t, written, jobrunner.Notes(foreign))
}

// A pod can write any number into its state; what counts by it must neither overflow nor run for long.
func TestReadClaim_doesNotBelieveEveryNumber(t *testing.T) {
	for number, believed := range map[string]bool{"1": true, "100000": true, "100001": false, "2147483647": false, "0": false, "-1": false, "9999999999": false} {
		claim, ok := jobrunner.ReadClaim(map[string]string{"drover.cattle.io/claimed-operation": "create", "drover.cattle.io/claimed-attempt": number})
		require.Equal(t, believed, ok, number)
		require.LessOrEqual(t, claim.Attempt, int32(jobrunner.MaxAttempt))
	}
	claim := jobrunner.Claim{Operation: jobrunner.Remove, Attempt: jobrunner.MaxAttempt}
	require.EqualValues(t, 1, claim.Again(1).Attempt, "a number that is written can be read again")
}

func TestCredentialIsKeptInTheState(t *testing.T) {
	given := task(jobrunner.Create)
	given.Credential = jobrunner.Credential{Name: "cloud", Env: map[string]string{"TOKEN": "t"}, Files: map[string][]byte{"f": []byte("c")}}
	kept, ok, err := jobrunner.ReadCredential(state(t, given).Data)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, given.Credential, kept)

	require.Empty(t, state(t, task(jobrunner.Create)).Data, "without a credential nothing is written over the pod's data")
	_, ok, err = jobrunner.ReadCredential(nil)
	require.NoError(t, err)
	require.False(t, ok)
	_, ok, err = jobrunner.ReadCredential(map[string][]byte{jobrunner.CredentialKey: []byte(`{}`)})
	require.NoError(t, err)
	require.False(t, ok, "without a name it is none")
	given.Credential.Name = strings.Repeat("a", 318)
	_, ok, err = jobrunner.ReadCredential(state(t, given).Data)
	require.NoError(t, err)
	require.False(t, ok, "the machine's status takes no such name")
	_, _, err = jobrunner.ReadCredential(map[string][]byte{jobrunner.CredentialKey: []byte(`{"env":{"TOKEN":"hidden"},`)})
	require.ErrorContains(t, err, "credential.json")
	require.NotContains(t, err.Error(), "hidden")
}

func TestStateSecretOutlivesItsOwner(t *testing.T) {
	secret := state(t, task(jobrunner.Create))
	require.Equal(t, "pool1-abc-machine-state", secret.Name)
	require.Equal(t, []string{rkev1.MachineFinalizer}, secret.Finalizers)
	require.EqualValues(t, rkev1.MachineStateSecretType, secret.Type)
	require.Len(t, secret.OwnerReferences, 1)

	away := task(jobrunner.Remove)
	away.Owner, away.Base = nil, "refuge-name"
	away.Request.StateSecret = "refuge-name-machine-state"
	require.Empty(t, state(t, away).OwnerReferences, "an owner in another namespace would have it collected")
	require.Equal(t, "refuge-name-rm-1", away.Name())
	require.Equal(t, "refuge-name-machine", jobrunner.ServiceAccount(away).Name)
}

// The pod of a machine must reach no other machine's state.
func TestRoleReachesOneSecretOnly(t *testing.T) {
	for _, operation := range []jobrunner.Operation{jobrunner.Create, jobrunner.Remove} {
		rules := jobrunner.Role(task(operation)).Rules
		require.Len(t, rules, 1, operation)
		require.Equal(t, []string{"secrets"}, rules[0].Resources)
		require.Equal(t, []string{"pool1-abc-machine-state"}, rules[0].ResourceNames)
		require.NotContains(t, rules[0].Verbs, "list")
		require.NotContains(t, rules[0].Verbs, "*")
	}
	rules := jobrunner.Role(probe()).Rules
	require.Len(t, rules, 2)
	require.Equal(t, []string{"probe-linode-1"}, rules[0].ResourceNames)
	require.Equal(t, []string{"configmaps"}, rules[1].Resources)
	binding := jobrunner.RoleBinding(probe())
	require.Equal(t, jobrunner.Role(probe()).Name, binding.RoleRef.Name)
	require.Equal(t, jobrunner.ServiceAccount(probe()).Name, binding.Subjects[0].Name)
	require.Equal(t, "drover-drivers", binding.Subjects[0].Namespace)
}

// Names come from users: every label of every object must still be one that the API takes.
func TestLabelsHoldForEveryName(t *testing.T) {
	long := strings.Repeat("a", 120) + ".example"
	given := task(jobrunner.Create)
	given.Request.Machine.Name, given.CAPIMachine = long, long+".x"
	for key, value := range jobrunner.Job(given).Labels {
		require.Empty(t, validation.IsValidLabelValue(value), key)
	}
	for _, tag := range jobrunner.Tags(given.Request.Machine) {
		require.LessOrEqual(t, len(tag), 63)
	}
	require.Empty(t, validation.IsDNS1123Subdomain(given.Name()))
	require.Equal(t, "true", jobrunner.Job(task(jobrunner.Remove)).Labels[rkev1.InfraRemoveLabel])
	require.Equal(t, "false", jobrunner.Job(task(jobrunner.Create)).Labels[rkev1.InfraRemoveLabel])
	require.NotContains(t, jobrunner.ProbeJob(probe()).Labels, rkev1.InfraRemoveLabel)
}

func TestTagsWithoutACluster(t *testing.T) {
	tags := jobrunner.Tags(jobrunner.MachineRef{Namespace: "a", Name: "b", UID: "u"})
	require.Equal(t, map[string]string{"drover-machine-uid": "u", "drover-machine": "a-b"}, tags)
}

func TestReadCredential_givesBackWhatItRead(t *testing.T) {
	check := func(text []byte) {
		credential, ok, err := jobrunner.ReadCredential(map[string][]byte{jobrunner.CredentialKey: text})
		if err != nil || !ok {
			require.Empty(t, credential.Name)
			return
		}
		again, err := json.Marshal(credential)
		require.NoError(t, err)
		back, ok, err := jobrunner.ReadCredential(map[string][]byte{jobrunner.CredentialKey: again})
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, credential.Name, back.Name)
		require.Len(t, back.Env, len(credential.Env))
	}
	check([]byte(`{"name":"cloud","env":{"A":"b"},"files":{"f":"Yw=="}}`))
	check([]byte(`{"name":1}`))
	check([]byte(`null`))
}
