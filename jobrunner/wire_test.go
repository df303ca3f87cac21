package jobrunner_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
)

// documents are one of each kind, with every field set.
func documents() map[string]any {
	return map[string]any{
		"request": jobrunner.Request{Operation: jobrunner.Create, Attempt: 2,
			Machine:      jobrunner.MachineRef{Namespace: "team-a", Name: "pool1-abc", UID: "uid", Kind: "AcmeMachine", ClusterName: "c1", ClusterUID: "cluster-uid"},
			Driver:       jobrunner.DriverRef{Name: "acme", Builtin: true, Digest: "d", URL: "https://host/acme", Checksum: "c", SkipChecksum: true},
			InstanceName: "pool1-abc", Options: map[string]any{"acme-region": "x", "acme-size": 3, "acme-tags": []string{"a", "b"}, "acme-ipv6": true},
			Files: map[string][]byte{"acme-userdata": []byte("#!/bin/sh\n")}, CredentialEnv: map[string]string{"ACME_TOKEN": "t"}, Secrets: []string{"s"},
			Tags: map[string]string{"drover-machine-uid": "uid"}, Namespace: "team-a", StateSecret: "pool1-abc-machine-state",
			ProviderIDTemplate: "acme://{ID}", ProviderID: "acme://1", HasBootstrap: true, SSHTimeoutSeconds: 60, Abandon: true, Scan: []jobrunner.ScanTarget{{ID: "1", MachineUID: "uid"}}, ScanNotAfter: end},
		"result": jobrunner.Result{Operation: jobrunner.Remove, Attempt: 3, Outcome: jobrunner.Failed, Reason: "DriverFailed", Class: "Quota",
			Message: "no room", ServerMayExist: true, Notes: []string{"n"}, StartTime: begin, EndTime: end},
		"journal": jobrunner.Journal{Operation: jobrunner.Create, Attempt: 2, Phase: jobrunner.PhaseRecorded, InstanceName: "pool1-abc", Driver: "acme", Time: begin},
		"server": jobrunner.Server{InstanceID: "1", ProviderID: "acme://1", Addresses: []jobrunner.Address{{Type: "ExternalIP", Address: "198.18.0.7"}},
			SSHUser: "root", SSHHost: "198.18.0.7", SSHPort: 22, FailureDomain: "zone-a"},
		"credential": jobrunner.Credential{Name: "cloud", Version: "uid/7", Env: map[string]string{"ACME_TOKEN": "t"}, Files: map[string][]byte{"acme-key": []byte("k")}},
		"probe":      jobrunner.ProbeReport{Digest: "d", Flags: []byte(`[]`)},
	}
}

// A manager and a pod of two versions talk to each other while one of them is upgraded: the form of what they say is fixed here.
func TestDocuments_goldenForms(t *testing.T) {
	for name, document := range documents() {
		t.Run(name, func(t *testing.T) {
			text, err := json.MarshalIndent(document, "", "  ")
			require.NoError(t, err)
			golden(t, "document-"+name+".json", append(text, '\n'))
		})
	}
}

// What the manager reads back is what the pod wrote, when that is as it should be.
func TestDocuments_roundTrip(t *testing.T) {
	all := documents()
	result, err := jobrunner.ReadResult(map[string][]byte{jobrunner.ResultKey: document(t, all["result"])})
	require.NoError(t, err)
	require.Equal(t, all["result"], result)
	journal, err := jobrunner.ReadJournal(map[string][]byte{jobrunner.JournalKey: document(t, all["journal"])})
	require.NoError(t, err)
	require.Equal(t, all["journal"], journal)
	server, err := jobrunner.ReadServer(map[string][]byte{jobrunner.ServerKey: document(t, all["server"])})
	require.NoError(t, err)
	require.Equal(t, all["server"], server)
}

// The whole schedule, for one machine: how long each class waits after each try.
func TestNextAttempt_goldenSchedule(t *testing.T) {
	var text bytes.Buffer
	classes := []string{rkev1.ClassInvalid, rkev1.ClassUnauthorized, rkev1.ClassQuota, rkev1.ClassCapacity, rkev1.ClassThrottled,
		rkev1.ClassTransient, rkev1.ClassUnknown, "something new"}
	for _, operation := range []jobrunner.Operation{jobrunner.Create, jobrunner.Remove} {
		for _, class := range classes {
			fmt.Fprintf(&text, "%s %s:", operation, class)
			for try := int32(1); try <= 13; try++ {
				at, exhausted := jobrunner.NextAttempt(jobrunner.Failure{Operation: operation, Class: class, Try: try, End: begin, UID: "uid"})
				if exhausted {
					text.WriteString(" stop")
					break
				}
				fmt.Fprintf(&text, " %s", at.Sub(begin).Round(time.Second))
			}
			text.WriteByte('\n')
		}
	}
	golden(t, "schedule.txt", text.Bytes())
}

// However often something fails, waits grow and stay bounded, and a remove never stops.
func TestNextAttempt_growsAndIsBounded(t *testing.T) {
	for _, class := range []string{rkev1.ClassInvalid, rkev1.ClassUnauthorized, rkev1.ClassQuota, rkev1.ClassCapacity, rkev1.ClassThrottled, rkev1.ClassTransient, rkev1.ClassUnknown, ""} {
		before := time.Duration(0)
		for _, try := range []int32{-1, 0, 1, 2, 3, 5, 8, 20, 100, math.MaxInt32} {
			at, exhausted := jobrunner.NextAttempt(jobrunner.Failure{Operation: jobrunner.Remove, Class: class, Try: try, End: begin, UID: "uid"})
			wait := at.Sub(begin)
			require.False(t, exhausted)
			require.GreaterOrEqual(t, wait, before, "%s, try %d", class, try)
			require.LessOrEqual(t, wait, 6*time.Hour+6*time.Hour/5)
			require.Positive(t, wait)
			before = wait
		}
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
			result, err := jobrunner.ReadResult(map[string][]byte{jobrunner.ResultKey: []byte(text)})
			require.NoError(t, err)
			require.Equal(t, tt.zero, result.StartTime.IsZero())
			require.Equal(t, tt.zero, result.EndTime.IsZero())
		})
	}
	_, err := jobrunner.ReadResult(map[string][]byte{jobrunner.ResultKey: []byte(`{"outcome":"Failed","endTime":"yesterday"}`)})
	require.ErrorContains(t, err, "reading result.json")
}

// serverField is a field of server.json and what it may be.
type serverField struct {
	name, text string
	wantErr    string
}

func serverFields() []serverField {
	long := strings.Repeat("x", 513)
	return []serverField{
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
	}
}

func TestReadServer_fields(t *testing.T) {
	for _, tt := range serverFields() {
		t.Run(tt.name, func(t *testing.T) {
			_, err := jobrunner.ReadServer(map[string][]byte{jobrunner.ServerKey: []byte(tt.text)})
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr)
				return
			}
			require.NoError(t, err)
		})
	}
}

func TestReadServer_addressesThatClusterAPITakes(t *testing.T) {
	many := make([]jobrunner.Address, 100)
	for i := range many {
		many[i] = jobrunner.Address{Type: "InternalIP", Address: fmt.Sprintf("198.18.0.%d", i)}
	}
	for name, tt := range map[string]struct{ given, want []jobrunner.Address }{
		"each type": {given: []jobrunner.Address{{"ExternalIP", "198.18.0.1"}, {"InternalIP", "10.0.0.1"}, {"Hostname", "m"}, {"ExternalDNS", "m.example"}, {"InternalDNS", "m.local"}},
			want: []jobrunner.Address{{"ExternalIP", "198.18.0.1"}, {"InternalIP", "10.0.0.1"}, {"Hostname", "m"}, {"ExternalDNS", "m.example"}, {"InternalDNS", "m.local"}}},
		"IPv6":           {given: []jobrunner.Address{{"ExternalIP", "2001:db8::1"}}, want: []jobrunner.Address{{"ExternalIP", "2001:db8::1"}}},
		"empty":          {given: []jobrunner.Address{{"ExternalIP", ""}, {"", "198.18.0.1"}}},
		"of no type":     {given: []jobrunner.Address{{"externalIP", "198.18.0.1"}, {"Loopback", "127.0.0.1"}}},
		"not printable":  {given: []jobrunner.Address{{"ExternalIP", "198.18.0.1\x1b[0m"}, {"Hostname", "m\u202e"}}},
		"too long":       {given: []jobrunner.Address{{"Hostname", strings.Repeat("a", 254)}, {"Hostname", strings.Repeat("b", 253)}}, want: []jobrunner.Address{{"Hostname", strings.Repeat("b", 253)}}},
		"too many":       {given: many, want: many[:64]},
		"the good alone": {given: []jobrunner.Address{{"Strange", "x"}, {"ExternalIP", "198.18.0.1"}, {"ExternalIP", " "}}, want: []jobrunner.Address{{"ExternalIP", "198.18.0.1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := jobrunner.ReadServer(map[string][]byte{jobrunner.ServerKey: document(t, jobrunner.Server{Addresses: tt.given})})
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
			result, err := jobrunner.ReadResult(map[string][]byte{jobrunner.ResultKey: text})
			require.NoError(t, err)
			require.Equal(t, tt.want, result.Message)
			require.Equal(t, []string{tt.want}, result.Notes)
			require.Equal(t, tt.want, jobrunner.LogTail(map[string][]byte{jobrunner.LogKey: []byte(tt.given)}))
		})
	}
}

// A condition's reason is one word that the API takes, whatever the pod says.
func TestReasons_areWords(t *testing.T) {
	for given, want := range map[string]string{
		"DriverFailed": "DriverFailed", "driver failed": "driverfailed", "404NotFound": "NotFound", "": "Failed", "404": "Failed", "—": "Failed",
		"a-b_c.d": "abcd", "Ä": "Failed", strings.Repeat("A", 100): strings.Repeat("A", 64), "x\n": "x", "<script>": "script",
	} {
		result, err := jobrunner.ReadResult(map[string][]byte{jobrunner.ResultKey: document(t, jobrunner.Result{Outcome: jobrunner.Failed, Reason: given})})
		require.NoError(t, err)
		require.Equal(t, want, result.Reason, "%q", given)
	}
}

func TestNotes_areBounded(t *testing.T) {
	var notes []string
	for i := range 40 {
		notes = append(notes, fmt.Sprintf("%d%s", i, strings.Repeat("n", 3<<10)))
	}
	result, err := jobrunner.ReadResult(map[string][]byte{jobrunner.ResultKey: document(t, jobrunner.Result{Outcome: jobrunner.Succeeded, Notes: notes})})
	require.NoError(t, err)
	require.Len(t, result.Notes, 16)
	for _, note := range result.Notes {
		require.Len(t, note, 2<<10)
	}
}

// Two machines never share a name of anything, however alike their own names are.
func TestNames_neverMeet(t *testing.T) {
	machines := []string{"a", "a-machine", "a-create", "a-create-1", "a.b", "a-b", "a--b", strings.Repeat("a", 60), strings.Repeat("a", 63), strings.Repeat("a", 64),
		strings.Repeat("a", 253), strings.Repeat("a", 60) + ".b", strings.Repeat("a", 60) + "-b", "m-1", "m-11", "m1"}
	seen := map[string]string{}
	for _, machine := range machines {
		names := map[string]string{"state": jobrunner.StateSecretName(machine), "access": "sa/" + jobrunner.AccessName(machine)}
		for attempt := int32(1); attempt <= 12; attempt++ {
			names[fmt.Sprintf("create %d", attempt)] = "job/" + jobrunner.JobName(machine, jobrunner.Create, attempt)
			names[fmt.Sprintf("remove %d", attempt)] = "job/" + jobrunner.JobName(machine, jobrunner.Remove, attempt)
		}
		for what, name := range names {
			_, bare, ok := strings.Cut(name, "/")
			if !ok {
				bare = name
			}
			require.Empty(t, validation.IsDNS1123Label(bare), name)
			require.Empty(t, seen[name], "%s of %s has the name %s of", what, machine, name)
			seen[name] = what + " of " + machine
		}
	}
}

func TestNames_table(t *testing.T) {
	for given, want := range map[string]string{
		"pool1-abc": "pool1-abc", "A": "a-", "a_b": "a-b-", "-a-": "a-", "a.": "a-", "": "x", "...": "x", "ä": "x", "a b": "a-b-",
	} {
		got := jobrunner.ObjectName(given)
		if strings.HasSuffix(want, "-") || want == "x" {
			require.Regexp(t, "^"+want+"[0-9a-f]{8}$", got, "%q was changed, and has a hash", given)
			continue
		}
		require.Equal(t, want, got)
	}
}

func TestReadClaim_isWholeOrNone(t *testing.T) {
	check := func(operation, attempt, try, hash, driver string) {
		annotations := map[string]string{"drover.cattle.io/claimed-operation": operation, "drover.cattle.io/claimed-attempt": attempt,
			"drover.cattle.io/claimed-try": try, "drover.cattle.io/request-hash": hash, "drover.cattle.io/driver": driver}
		claim, ok := jobrunner.ReadClaim(annotations)
		if ok {
			require.Positive(t, claim.Attempt)
			require.Positive(t, claim.Try)
			require.Contains(t, []jobrunner.Operation{jobrunner.Create, jobrunner.Remove}, claim.Operation)
		} else {
			require.Zero(t, claim)
		}
		if ref, ok := jobrunner.ReadDriver(annotations); ok {
			require.NotEmpty(t, ref.Name)
		}
		limit, err := jobrunner.ParseInstanceNameLimit("google", attempt)
		if err == nil {
			require.GreaterOrEqual(t, limit, jobrunner.MinInstanceName)
			require.LessOrEqual(t, limit, 63)
		}
	}
	check("create", "1", "1", "h", `{"name":"acme"}`)
	check("remove", "2147483647", "-1", "", `{}`)
	check("scan", "0", "x", "\x00", `null`)
}

func TestObjectName_isALabel(t *testing.T) {
	check := func(one, two string) {
		name := jobrunner.ObjectName(one, two)
		require.Empty(t, validation.IsDNS1123Label(name), name)
		require.Equal(t, name, jobrunner.ObjectName(one, two))
		for _, value := range jobrunner.Tags(jobrunner.MachineRef{Namespace: one, Name: two, UID: "u", ClusterName: one}) {
			require.Empty(t, validation.IsDNS1123Label(value), value)
		}
	}
	check("a", "b")
	check("", "")
	check(strings.Repeat("a", 70), "-")
}
