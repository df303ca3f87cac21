package jobrunner_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
)

func document(tb testing.TB, v any) []byte {
	tb.Helper()
	text, err := json.Marshal(v)
	require.NoError(tb, err)
	return text
}

func TestReadResult(t *testing.T) {
	tests := []struct {
		name, text, wantErr string
		want                jobrunner.Result
	}{
		{name: "success", text: `{"operation":"create","attempt":2,"outcome":"Succeeded","reason":"x","class":"Quota"}`,
			want: jobrunner.Result{Operation: jobrunner.Create, Attempt: 2, Outcome: jobrunner.Succeeded}},
		{name: "failure", text: `{"outcome":"Failed","reason":"PreCreateCheckFailed","class":"Quota","message":"no \u001b[31mroom"}`,
			want: jobrunner.Result{Outcome: jobrunner.Failed, Reason: "PreCreateCheckFailed", Class: "Quota", Message: "no [31mroom"}},
		{name: "strange words", text: `{"outcome":"Failed","reason":"what ever!","class":"Bad"}`,
			want: jobrunner.Result{Outcome: jobrunner.Failed, Reason: "whatever", Class: "Unknown"}},
		{name: "no reason", text: `{"outcome":"Cancelled"}`,
			want: jobrunner.Result{Outcome: jobrunner.Cancelled, Reason: "Failed", Class: "Unknown"}},
		{name: "unknown outcome", text: `{"outcome":"Fine"}`, wantErr: "unknown outcome"},
		{name: "a number beyond all", text: `{"outcome":"Failed","attempt":2147483647}`, wantErr: "there is no attempt 2147483647"},
		{name: "a number that is none", text: `{"outcome":"Failed","attempt":-1}`, wantErr: "there is no attempt -1"},
		{name: "unknown operation", text: `{"operation":"c\u001b[31mreate","outcome":"Failed"}`, wantErr: `unknown operation "c\x1b[31mreate"`},
		{name: "no JSON", text: `<html>`, wantErr: "reading result.json"},
		{name: "too long", text: strings.Repeat(" ", 1<<20), wantErr: "more than the"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := jobrunner.ReadResult(map[string][]byte{jobrunner.ResultKey: []byte(tt.text)})
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	_, err := jobrunner.ReadResult(nil)
	require.True(t, jobrunner.IsNoDocument(err))
}

// TestReadJournal_operation: a pod cannot make words of its own up, and none of them keeps a removal from reading the phase.
func TestReadJournal_operation(t *testing.T) {
	for operation, want := range map[string]jobrunner.Operation{
		"create": jobrunner.Create, "remove": jobrunner.Remove, "": "", "Create": "", "\x1b]0;x\x07create": "", "remove it by hand": "",
	} {
		text := document(t, map[string]any{"operation": operation, "attempt": 2, "phase": "Created"})
		got, err := jobrunner.ReadJournal(map[string][]byte{jobrunner.JournalKey: text})
		require.NoError(t, err)
		require.Equal(t, jobrunner.Journal{Operation: want, Attempt: 2, Phase: jobrunner.PhaseCreated}, got, "%q", operation)
	}
}

func TestReadServer(t *testing.T) {
	got, err := jobrunner.ReadServer(map[string][]byte{jobrunner.ServerKey: document(t, jobrunner.Server{
		InstanceID: "123", ProviderID: "digitalocean://123",
		Addresses: []jobrunner.Address{{Type: "ExternalIP", Address: "198.18.0.7"}, {Type: "Strange", Address: "x"},
			{Type: "Hostname", Address: "a b"}, {Type: "InternalIP"}},
	})})
	require.NoError(t, err)
	require.Equal(t, []jobrunner.Address{{Type: "ExternalIP", Address: "198.18.0.7"}}, got.Addresses)
	for _, bad := range []jobrunner.Server{{ProviderID: "a b"}, {InstanceID: strings.Repeat("x", 600)}, {SSHPort: 70000}, {SSHHost: "-\n"}} {
		_, err := jobrunner.ReadServer(map[string][]byte{jobrunner.ServerKey: document(t, bad)})
		require.Error(t, err)
	}
}

func TestNothingMade(t *testing.T) {
	require.True(t, jobrunner.NothingMade(nil))
	require.True(t, jobrunner.NothingMade(map[string][]byte{jobrunner.ResultKey: []byte("{}"), jobrunner.LogKey: []byte("x")}))
	for _, key := range []string{jobrunner.JournalKey, jobrunner.ServerKey, jobrunner.ExtractedConfigKey} {
		require.False(t, jobrunner.NothingMade(map[string][]byte{key: []byte("garbage")}))
	}
}

func TestLogTail(t *testing.T) {
	log := strings.Repeat("x", 5000) + "\x00the end\n"
	tail := jobrunner.LogTail(map[string][]byte{jobrunner.LogKey: []byte(log)})
	require.LessOrEqual(t, len(tail), 4096)
	require.True(t, strings.HasSuffix(tail, "xthe end\n"))
}

// requireTaken: the API takes all that a scan tells.
func requireTaken(t *testing.T, r jobrunner.Result) {
	t.Helper()
	for _, at := range []time.Time{r.StartTime, r.EndTime} {
		require.Less(t, at.UTC().Year(), 10_000)
	}
	if r.Scan == nil {
		return
	}
	for _, s := range r.Scan.Servers {
		require.Less(t, s.Created.UTC().Year(), 10_000)
		require.Regexp(t, `\A[!-~]{1,512}\z`, s.ID)
		require.Regexp(t, `\A[!-~]{0,512}\z`, s.ProviderID)
		require.False(t, strings.ContainsFunc(s.Name, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }), "%q", s.Name)
	}
}

// FuzzRead: whatever a pod leaves as any of its documents is read within its bounds, or refused.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"outcome":"Failed","phase":"Intent","providerID":"x://1","addresses":[{"type":"ExternalIP","address":"1.2.3.4"}]}`))
	f.Add([]byte(`{"outcome":1}`))
	f.Add([]byte(`{"outcome":"Failed","phase":"Gone","operation":"create\u202e"}`))
	f.Add([]byte(`{"outcome":"Succeeded","scan":{"servers":[{"id":"1","machineUID":"u","name":"a\tb","created":"9999-12-31T23:59:59-01:00"}],"removed":["1"]}}`))
	f.Add([]byte(`{"outcome":"Failed","message":"` + strings.Repeat("ä", 3000) + `"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		data := map[string][]byte{jobrunner.ResultKey: text, jobrunner.ServerKey: text, jobrunner.JournalKey: text, jobrunner.LogKey: text}
		if r, err := jobrunner.ReadResult(data); err == nil {
			require.LessOrEqual(t, len(r.Message), 2<<10)
			require.Regexp(t, `^([A-Za-z][A-Za-z0-9]*)?$`, r.Reason)
			require.Regexp(t, `^[a-z]*$`, r.Operation)
			requireTaken(t, r)
		}
		if s, err := jobrunner.ReadServer(data); err == nil {
			require.LessOrEqual(t, len(s.Addresses), 64)
			require.NotContains(t, s.ProviderID, " ")
		}
		if j, err := jobrunner.ReadJournal(data); err == nil {
			require.NotEmpty(t, j.Phase)
			require.Regexp(t, `^[a-z]*$`, j.Operation)
		}
		require.LessOrEqual(t, len(jobrunner.LogTail(data)), 4<<10)
		require.False(t, len(text) > 0 && jobrunner.NothingMade(data))
		jobrunner.OutcomeOf(jobrunner.Evidence{Operation: jobrunner.Create, Attempt: 1, Data: data})
	})
}

// FuzzReadAnnotations: whatever stands in the state Secret's annotations and credential, the machine's status takes what is read.
func FuzzReadAnnotations(f *testing.F) {
	f.Add("create", "1", "h", "pool1-abc", `{"name":"acme","url":"https://host/acme","checksum":"c","digest":"d"}`, []byte(`{"name":"team:cloud"}`))
	f.Add("remove", "2147483647", "\x00", "../x", `{"name":"a b"}`, []byte(`{"name":1}`))
	f.Fuzz(func(t *testing.T, operation, number, hash, instance, driver string, credential []byte) {
		annotations := map[string]string{"drover.cattle.io/claimed-operation": operation, "drover.cattle.io/claimed-attempt": number,
			"drover.cattle.io/claimed-try": number, rkev1.RequestHashAnnotation: hash, "drover.cattle.io/instance-name": instance, "drover.cattle.io/driver": driver}
		if claim, ok := jobrunner.ReadClaim(annotations); ok {
			require.Positive(t, claim.Again(1).Attempt)
			require.Positive(t, claim.Try)
		}
		require.Regexp(t, `\A([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?\z`, jobrunner.ReadInstanceName(annotations, nil))
		state := &metav1.ObjectMeta{Annotations: map[string]string{rkev1.TaggedUIDAnnotation: instance}, Labels: map[string]string{rkev1.MachineUIDLabel: hash}}
		require.LessOrEqual(t, len(jobrunner.ReadTaggedUID(state)), 63)
		if ref, ok := jobrunner.ReadDriver(annotations); ok {
			require.Regexp(t, `\A[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\z`, ref.Name)
			require.LessOrEqual(t, len(ref.URL), 2048)
			require.LessOrEqual(t, len(ref.Checksum), 128)
		}
		if kept, ok, err := jobrunner.ReadCredential(map[string][]byte{jobrunner.CredentialKey: credential}); ok {
			require.NoError(t, err)
			require.NotEmpty(t, kept.Name)
			require.LessOrEqual(t, len(kept.Name), 317)
		}
	})
}
