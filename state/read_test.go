package state_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
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
		want                state.Result
	}{
		{name: "success", text: `{"operation":"create","attempt":2,"outcome":"Succeeded","reason":"x","class":"Quota"}`,
			want: state.Result{Operation: state.Create, Attempt: 2, Outcome: state.Succeeded}},
		{name: "failure", text: `{"outcome":"Failed","reason":"PreCreateCheckFailed","class":"Quota","message":"no \u001b[31mroom"}`,
			want: state.Result{Outcome: state.Failed, Reason: "PreCreateCheckFailed", Class: "Quota", Message: "no [31mroom"}},
		{name: "strange words", text: `{"outcome":"Failed","reason":"what ever!","class":"Bad"}`,
			want: state.Result{Outcome: state.Failed, Reason: "whatever", Class: "Unknown"}},
		{name: "no reason", text: `{"outcome":"Cancelled"}`,
			want: state.Result{Outcome: state.Cancelled, Reason: "Failed", Class: "Unknown"}},
		{name: "unknown outcome", text: `{"outcome":"Fine"}`, wantErr: "unknown outcome"},
		{name: "a number beyond all", text: `{"outcome":"Failed","attempt":2147483647}`, wantErr: "invalid attempt number 2147483647"},
		{name: "a number that is none", text: `{"outcome":"Failed","attempt":-1}`, wantErr: "invalid attempt number -1"},
		{name: "unknown operation", text: `{"operation":"c\u001b[31mreate","outcome":"Failed"}`, wantErr: `unknown operation "c\x1b[31mreate"`},
		{name: "no JSON", text: `<html>`, wantErr: "reading result.json"},
		{name: "too long", text: strings.Repeat(" ", 1<<20), wantErr: "more than the"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := state.ReadResult(map[string][]byte{state.ResultKey: []byte(tt.text)}, state.ResultKey)
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	_, err := state.ReadResult(nil, state.ResultKey)
	require.True(t, errors.Is(err, state.ErrNoDocument))
}

// TestReadJournal_operation: a pod cannot make words of its own up, and none of them keeps a removal from reading the phase.
func TestReadJournal_operation(t *testing.T) {
	for operation, want := range map[string]state.Operation{
		"create": state.Create, "remove": state.Remove, "": "", "Create": "", "\x1b]0;x\x07create": "", "remove it by hand": "",
	} {
		text := document(t, map[string]any{"operation": operation, "attempt": 2, "phase": "Created"})
		got, err := state.ReadJournal(map[string][]byte{state.JournalKey: text})
		require.NoError(t, err)
		require.Equal(t, state.Journal{Operation: want, Attempt: 2, Phase: state.PhaseCreated}, got, "%q", operation)
	}
}

func TestNothingMade(t *testing.T) {
	require.True(t, state.Of(nil).NothingMade())
	require.True(t, state.Of(map[string][]byte{state.ResultKey: []byte("{}"), state.LogKey: []byte("x")}).NothingMade())
	for _, key := range []string{state.JournalKey, state.ServerKey, state.ExtractedConfigKey} {
		require.False(t, state.Of(map[string][]byte{key: []byte("garbage")}).NothingMade())
	}
}

// requireTaken: the API takes all that a scan tells.
func requireTaken(t *testing.T, r state.Result) {
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
		data := map[string][]byte{state.ResultKey: text, state.ServerKey: text, state.JournalKey: text, state.LogKey: text}
		if r, err := state.ReadResult(data, state.ResultKey); err == nil {
			require.LessOrEqual(t, len(r.Message), 2<<10)
			require.Regexp(t, `^([A-Za-z][A-Za-z0-9]*)?$`, r.Reason)
			require.Regexp(t, `^[a-z]*$`, r.Operation)
			requireTaken(t, r)
		}
		if s, err := state.ReadServer(data); err == nil {
			require.LessOrEqual(t, len(s.Addresses), 64)
			require.NotContains(t, s.ProviderID, " ")
		}
		if j, err := state.ReadJournal(data); err == nil {
			require.NotEmpty(t, j.Phase)
			require.Regexp(t, `^[a-z]*$`, j.Operation)
		}
		require.LessOrEqual(t, len(state.Of(data).LogTail()), 4<<10)
		require.False(t, len(text) > 0 && state.Of(data).NothingMade())
	})
}

// FuzzReadAnnotations: whatever stands in the state Secret's annotations and credential, the machine's status takes what is read.
func FuzzReadAnnotations(f *testing.F) {
	f.Add("create", "1", "h", "pool1-abc", `{"name":"acme","url":"https://host/acme","checksum":"c","digest":"d"}`, []byte(`{"name":"team:cloud"}`))
	f.Add("remove", "2147483647", "\x00", "../x", `{"name":"a b"}`, []byte(`{"name":1}`))
	f.Fuzz(func(t *testing.T, operation, number, hash, instance, driver string, credential []byte) {
		annotations := map[string]string{"drover.cattle.io/claimed-operation": operation, "drover.cattle.io/claimed-attempt": number,
			"drover.cattle.io/claimed-try": number, rkev1.RequestHashAnnotation: hash, "drover.cattle.io/instance-name": instance, "drover.cattle.io/driver": driver}
		if claim, ok := state.ReadClaim(annotations); ok {
			require.Positive(t, claim.Again(1).Attempt)
			require.Positive(t, claim.Try)
		}
		read := state.Read(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Data: map[string][]byte{state.CredentialKey: credential}})
		require.Regexp(t, `\A([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?\z`, read.InstanceName)
		labelled := metav1.ObjectMeta{Annotations: map[string]string{rkev1.TaggedUIDAnnotation: instance}, Labels: map[string]string{rkev1.MachineUIDLabel: hash}}
		require.LessOrEqual(t, len(state.Read(&corev1.Secret{ObjectMeta: labelled}).TaggedUID), 63)
		if ref, ok := state.ReadDriver(annotations); ok {
			require.Regexp(t, `\A[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\z`, ref.Name)
			require.LessOrEqual(t, len(ref.URL), 2048)
			require.LessOrEqual(t, len(ref.Checksum), 128)
		}
		if kept, err := state.ReadCredential(map[string][]byte{state.CredentialKey: credential}); err == nil {
			require.NotEmpty(t, kept.Name)
			require.LessOrEqual(t, len(kept.Name), 317)
		}
	})
}

// The end of a log is what people need; it is cut between characters, and shows nothing but text.
func TestLogTail_cuts(t *testing.T) {
	for name, tt := range map[string]struct{ log, begins, ends string }{
		"empty":               {"", "", ""},
		"short":               {"made it\n", "made it\n", "made it\n"},
		"long":                {"first\n" + strings.Repeat("x", 5000) + "last\n", "x", "last\n"},
		"cut in a character":  {strings.Repeat("ä", 3000) + "!", "ä", "ä!"},
		"cut in an escape":    {strings.Repeat("\x1b[31mred", 1000), "", "[31mred"},
		"not UTF-8":           {strings.Repeat("\xff", 5000) + "end", "end", "end"},
		"Windows line ending": {"one\r\ntwo\r\n", "one\ntwo\n", "two\n"},
	} {
		t.Run(name, func(t *testing.T) {
			tail := state.Of(map[string][]byte{state.LogKey: []byte(tt.log)}).LogTail()
			require.True(t, strings.HasPrefix(tail, tt.begins), "%.20q", tail)
			require.True(t, strings.HasSuffix(tail, tt.ends), "%q", tail)
			require.LessOrEqual(t, len(tail), 4<<10)
			require.NotContains(t, tail, "\x1b")
		})
	}
}

// A pod's clock, or a hostile pod, may tell any time; the API takes no status with a year of five digits.
func TestReadResult_timesThatCannotBe(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		zero bool
	}{
		"now":                        {"2030-01-02T03:04:05Z", false},
		"a zone":                     {"2030-01-02T03:04:05+14:00", false},
		"before there were clouds":   {"1999-12-31T23:59:59Z", true},
		"none":                       {"0001-01-01T00:00:00Z", true},
		"the last of four digits":    {"9999-12-31T23:59:59Z", true},
		"of five digits in our zone": {"9999-12-31T23:59:59-12:00", true},
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf(`{"outcome":"Failed","startTime":%q,"endTime":%[1]q}`, tt.text)
			result, err := state.ReadResult(map[string][]byte{state.ResultKey: []byte(text)}, state.ResultKey)
			require.NoError(t, err)
			require.Equal(t, tt.zero, result.StartTime.IsZero())
			require.Equal(t, tt.zero, result.EndTime.IsZero())
		})
	}
	_, err := state.ReadResult(map[string][]byte{state.ResultKey: []byte(`{"outcome":"Failed","endTime":"yesterday"}`)}, state.ResultKey)
	require.ErrorContains(t, err, "reading result.json")
}

func TestReadServer_fields(t *testing.T) {
	long := strings.Repeat("x", 513)
	for _, tt := range []struct {
		name, text string
		wantErr    string
	}{
		{"an ID", `{"instanceID":"i-0123456789abcdef0"}`, ""},
		{"the longest ID", `{"instanceID":"` + long[1:] + `"}`, ""},
		{"a longer ID", `{"instanceID":"` + long + `"}`, "instanceID has characters or a length it cannot have"},
		{"an ID with a space", `{"instanceID":"a b"}`, "instanceID has characters or a length it cannot have"},
		{"an ID with a new line", `{"instanceID":"a\nb"}`, "instanceID"},
		{"an ID that is not ASCII", `{"instanceID":"ä"}`, "instanceID"},
		{"an ID that is a number", `{"instanceID":5}`, "reading server.json"},
		{"AWS", `{"providerID":"aws:///eu-central-1a/i-0123"}`, ""},
		{"Azure", `{"providerID":"azure:///subscriptions/0/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/m"}`, ""},
		{"a provider ID with DEL", `{"providerID":"x://\u007f"}`, "providerID"},
		{"a user", `{"sshUser":"ubuntu"}`, ""},
		{"a user with an option", `{"sshUser":"root -o ProxyCommand=x"}`, "sshUser"},
		{"a host", `{"sshHost":"2001:db8::1"}`, ""},
		{"a host with a tab", `{"sshHost":"a\tb"}`, "sshHost"},
		{"no port", `{"sshPort":0}`, ""},
		{"the last port", `{"sshPort":65535}`, ""},
		{"after the last port", `{"sshPort":65536}`, "port 65536"},
		{"before the first", `{"sshPort":-1}`, "port -1"},
		{"nothing", `{}`, ""},
		{"null", `null`, ""},
		{"a list", `[]`, "reading server.json"},
		{"cut short", `{"instanceID":"1"`, "reading server.json"},
		{"two documents", `{} {}`, "reading server.json"},
		{"too long", `{"sshHost":"` + strings.Repeat(" ", 64<<10) + `"}`, "more than the 65536 allowed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := state.ReadServer(map[string][]byte{state.ServerKey: []byte(tt.text)})
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr)
				return
			}
			require.NoError(t, err)
		})
	}
}

func TestReadServer_addressesThatClusterAPITakes(t *testing.T) {
	many := make([]state.Address, 100)
	for i := range many {
		many[i] = state.Address{Type: "InternalIP", Address: fmt.Sprintf("198.18.0.%d", i)}
	}
	for name, tt := range map[string]struct{ given, want []state.Address }{
		"each type": {given: []state.Address{{Type: "ExternalIP", Address: "198.18.0.1"}, {Type: "InternalIP", Address: "10.0.0.1"}, {Type: "Hostname", Address: "m"}, {Type: "ExternalDNS", Address: "m.example"}, {Type: "InternalDNS", Address: "m.local"}},
			want: []state.Address{{Type: "ExternalIP", Address: "198.18.0.1"}, {Type: "InternalIP", Address: "10.0.0.1"}, {Type: "Hostname", Address: "m"}, {Type: "ExternalDNS", Address: "m.example"}, {Type: "InternalDNS", Address: "m.local"}}},
		"IPv6":           {given: []state.Address{{Type: "ExternalIP", Address: "2001:db8::1"}}, want: []state.Address{{Type: "ExternalIP", Address: "2001:db8::1"}}},
		"empty":          {given: []state.Address{{Type: "ExternalIP", Address: ""}, {Type: "", Address: "198.18.0.1"}}},
		"of no type":     {given: []state.Address{{Type: "externalIP", Address: "198.18.0.1"}, {Type: "Loopback", Address: "127.0.0.1"}}},
		"not printable":  {given: []state.Address{{Type: "ExternalIP", Address: "198.18.0.1\x1b[0m"}, {Type: "Hostname", Address: "m\u202e"}}},
		"too long":       {given: []state.Address{{Type: "Hostname", Address: strings.Repeat("a", 254)}, {Type: "Hostname", Address: strings.Repeat("b", 253)}}, want: []state.Address{{Type: "Hostname", Address: strings.Repeat("b", 253)}}},
		"too many":       {given: many, want: many[:64]},
		"the good alone": {given: []state.Address{{Type: "Strange", Address: "x"}, {Type: "ExternalIP", Address: "198.18.0.1"}, {Type: "ExternalIP", Address: " "}}, want: []state.Address{{Type: "ExternalIP", Address: "198.18.0.1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := state.ReadServer(map[string][]byte{state.ServerKey: document(t, state.Server{Addresses: tt.given})})
			require.NoError(t, err)
			require.Equal(t, tt.want, server.Addresses)
		})
	}
}

// What is shown to people is text: no escape that colours, moves or turns around what stands beside it.
func TestMessages_areText(t *testing.T) {
	for name, tt := range map[string]struct{ given, want string }{
		"plain":            {"no route to host", "no route to host"},
		"lines and tabs":   {"one\n\ttwo", "one\n\ttwo"},
		"returns":          {"progress 1%\rprogress 2%", "progress 1%progress 2%"},
		"colours":          {"\x1b[31mred\x1b[0m", "[31mred[0m"},
		"bells":            {"\a\b\v\f", ""},
		"turned direction": {"user\u202egpj.exe", "usergpj.exe"},
		"zero width":       {"a\u200bb\ufeffc", "abc"},
		"C1 controls":      {"a\u0085b\u009bc", "abc"},
		"other scripts":    {"容量不足 – äöü ñ", "容量不足 – äöü ñ"},
		"not UTF-8":        {"a\xff\xfeb", "ab"},
		"replaced before":  {"a\ufffdb", "ab"},
		"private use":      {"a\ue000b", "ab"},
		"no-break space":   {"a\u00a0b", "ab"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(map[string]any{"outcome": "Failed", "message": tt.given, "notes": []string{tt.given}})
			require.NoError(t, err)
			result, err := state.ReadResult(map[string][]byte{state.ResultKey: text}, state.ResultKey)
			require.NoError(t, err)
			require.Equal(t, tt.want, result.Message)
			require.Equal(t, []string{tt.want}, result.Notes)
			require.Equal(t, tt.want, state.Of(map[string][]byte{state.LogKey: []byte(tt.given)}).LogTail())
		})
	}
}

// A condition's reason is one word that the API takes, whatever the pod says.
func TestReasons_areWords(t *testing.T) {
	for given, want := range map[string]string{
		"DriverFailed": "DriverFailed", "driver failed": "driverfailed", "404NotFound": "NotFound", "": "Failed", "404": "Failed", "—": "Failed",
		"a-b_c.d": "abcd", "Ä": "Failed", strings.Repeat("A", 100): strings.Repeat("A", 64), "x\n": "x", "<script>": "script",
	} {
		result, err := state.ReadResult(map[string][]byte{state.ResultKey: document(t, state.Result{Outcome: state.Failed, Reason: given})}, state.ResultKey)
		require.NoError(t, err)
		require.Equal(t, want, result.Reason, "%q", given)
	}
}

func TestNotes_areBounded(t *testing.T) {
	var notes []string
	for i := range 40 {
		notes = append(notes, fmt.Sprintf("%d%s", i, strings.Repeat("n", 3<<10)))
	}
	result, err := state.ReadResult(map[string][]byte{state.ResultKey: document(t, state.Result{Outcome: state.Succeeded, Notes: notes})}, state.ResultKey)
	require.NoError(t, err)
	require.Len(t, result.Notes, 16)
	for _, note := range result.Notes {
		require.Len(t, note, 2<<10)
	}
}
