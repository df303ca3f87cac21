package operation

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation/machinedir"
	"github.com/drover-project/drover/jobrunner/operation/plugin"
	"github.com/drover-project/drover/jobrunner/operation/redact"
	"github.com/drover-project/drover/jobrunner/operation/statesecret"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

// underWay is a session about to end, whose state Secret is a fake API server's.
func underWay(t *testing.T, driver string) (*session, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}})
	redactor := &redact.Redactor{}
	s := newSession(Options{Home: t.TempDir(), TempDir: t.TempDir()}, jobrunner.Request{
		Operation: state.Create, Attempt: 3, InstanceName: "pool-1", Driver: state.DriverRef{Name: driver},
	}, nil, redactor, newLog(&bytes.Buffer{}, redactor))
	s.state = &statesecret.Secret{Client: client.CoreV1().Secrets("n"), Name: "s"}
	require.NoError(t, s.state.Load(t.Context()))
	require.NoError(t, s.dir.Make())
	return s, client
}

func kept(t *testing.T, client *fake.Clientset) map[string][]byte {
	t.Helper()
	secret, err := client.CoreV1().Secrets("n").Get(context.Background(), "s", metav1.GetOptions{})
	require.NoError(t, err)
	return secret.Data
}

func refusePatches(client *fake.Clientset, err error) {
	client.PrependReactor("patch", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

// TestConclude: which cause a result names, whatever the errors are wrapped in.
func TestConclude(t *testing.T) {
	quota := fail(rkev1.CreateFailedReason, rkev1.ClassQuota, errors.New("no more"))
	full := &os.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC}
	long := strings.Repeat("s3cret", 500)
	for name, c := range map[string]struct {
		err                    error
		outcome                state.Outcome
		reason, class, message string
	}{
		"nothing":                          {outcome: state.Succeeded},
		"a failure":                        {quota, state.Failed, "CreateFailed", rkev1.ClassQuota, "no more"},
		"a wrapped one":                    {fmt.Errorf("x: %w", quota), state.Failed, "CreateFailed", rkev1.ClassQuota, "x: no more"},
		"the first of several":             {errors.Join(quota, fail(rkev1.LookupFailedReason, rkev1.ClassTransient, errors.New("y"))), state.Failed, "CreateFailed", rkev1.ClassQuota, "no more\ny"},
		"a cancellation":                   {fmt.Errorf("x: %w", errCancelled), state.Cancelled, "Cancelled", rkev1.ClassTransient, "x: the pod was stopped before it was done (deleted, drained or preempted), and it saved its state"},
		"a cancellation of the context":    {context.Canceled, state.Cancelled, "Cancelled", rkev1.ClassTransient, "context canceled"},
		"a full disk":                      {full, state.Failed, "DiskFull", rkev1.ClassTransient, "write /x: no space left on device"},
		"a full disk behind another cause": {fail(rkev1.StateUnreadableReason, rkev1.ClassInvalid, full), state.Failed, "DiskFull", rkev1.ClassTransient, "write /x: no space left on device"},
		"anything else":                    {errors.New("hm"), state.Failed, "JobFailed", rkev1.ClassUnknown, "hm"},
		"a secret in it":                   {errors.New("the token is hunter2"), state.Failed, "JobFailed", rkev1.ClassUnknown, "the token is [redacted]"},
		"long secrets":                     {&plugin.Error{Text: strings.Repeat("a "+long+" ", 4)}, state.Failed, "JobFailed", rkev1.ClassUnknown, strings.Repeat("a [redacted] ", 4)},
		"more than anybody reads":          {errors.New(strings.Repeat("ü", 5000)), state.Failed, "JobFailed", rkev1.ClassUnknown, strings.Repeat("ü", 1024)},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := underWay(t, "none")
			s.redactor.Add("hunter2", long)
			s.advance(state.PhaseIntent)
			s.conclude(c.err)
			r := s.result
			require.Equal(t, []any{c.outcome, c.reason, c.class, c.message}, []any{r.Outcome, r.Reason, r.Class, r.Message})
			require.Equal(t, []any{state.Create, int32(3), true}, []any{r.Operation, r.Attempt, r.ServerMayExist})
			require.False(t, r.EndTime.Before(r.StartTime))
		})
	}
}

func TestFinish_exit_codes(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code int
	}{"succeeded": {nil, ExitSucceeded}, "failed": {errors.New("x"), ExitFailed}, "cancelled": {errCancelled, ExitCancelled}} {
		t.Run(name, func(t *testing.T) {
			s, client := underWay(t, "none")
			s.log.printf("a line")
			s.conclude(c.err)
			require.Equal(t, c.code, s.finish(t.Context()))
			result, err := state.ReadResult(kept(t, client), state.ResultKey)
			require.NoError(t, err)
			require.Equal(t, s.result, result)
			require.Contains(t, string(kept(t, client)[state.LogKey]), " a line\n")
		})
	}
}

// TestFinish_unsaved: an operation whose end is not kept has failed, whatever it did, and says so where it still can.
func TestFinish_unsaved(t *testing.T) {
	s, client := underWay(t, "digitalocean")
	refusePatches(client, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", errors.New("the token of hunter2 is gone")))
	s.redactor.Add("hunter2")
	s.advance(state.PhaseIntent)
	s.conclude(nil)
	require.Equal(t, ExitFailed, s.finish(t.Context()))
	said := s.result
	require.Equal(t, []any{state.Failed, "StateUnwritable", rkev1.ClassTransient, true}, []any{said.Outcome, said.Reason, said.Class, said.ServerMayExist})
	require.Contains(t, said.Message, "writing the state Secret s: ")
	require.Contains(t, string(s.log.ring.bytes()), "the token of [redacted] is gone")
}

// TestFinish_large_state leaves out what there is no room for, the least important first; what is said of the server stays.
func TestFinish_large_state(t *testing.T) {
	noise := make([]byte, 600<<10)
	_, err := rand.Read(noise)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		others             int
		log, archive       bool
		reason, class      string
		code               int
		journal, withState bool
	}{
		"room for all":                {log: true, archive: true, code: ExitSucceeded},
		"no room for the log":         {others: 480 << 10, archive: true, code: ExitSucceeded},
		"no room for the directory":   {others: 700 << 10, reason: "StateTooLarge", class: rkev1.ClassInvalid, code: ExitFailed},
		"no room for anything at all": {others: 1<<20 - 16<<10, reason: "StateTooLarge", class: rkev1.ClassInvalid, code: ExitFailed, withState: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, client := underWay(t, "digitalocean")
			if c.others > 0 {
				s.state.Data[state.CredentialKey] = make([]byte, c.others)
			}
			require.NoError(t, os.WriteFile(s.dir.Path("id_rsa"), []byte("key"), 0o600))
			require.NoError(t, os.WriteFile(s.dir.Path("dump"), noise[:500<<10], 0o600))
			s.record = clouds.Record{"DropletID": json.Number("7"), "StorePath": s.dir.Store}
			s.server = &state.Server{InstanceID: "7", ProviderID: "digitalocean://7"}
			s.advance(state.PhaseCreated)
			for range 1200 {
				s.log.printf("%s", strings.Repeat("x", 60))
			}
			s.conclude(nil)
			require.Equal(t, c.code, s.finish(t.Context()))
			require.Equal(t, []string{c.reason, c.class}, []string{s.result.Reason, s.result.Class})
			data := kept(t, client)
			require.Equal(t, c.log, len(data[state.LogKey]) > 0)
			require.Equal(t, c.archive, len(data[state.ExtractedConfigKey]) > 0)
			if c.withState {
				require.Empty(t, data)
				return
			}
			result, err := state.ReadResult(data, state.ResultKey)
			require.NoError(t, err)
			require.Equal(t, s.result, result)
			server, err := state.ReadServer(data)
			require.NoError(t, err)
			require.Equal(t, "digitalocean://7", server.ProviderID)
		})
	}
}

// TestDeclareIntent_unsaved: what could not be written down was not asked for, so that the next attempt need not wonder.
func TestDeclareIntent_unsaved(t *testing.T) {
	s, client := underWay(t, "openstack")
	s.record = clouds.Record{"MachineId": ""}
	refusePatches(client, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", errors.New("no")))
	err := s.declareIntent(t.Context())
	var f *failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, []string{"StateUnwritable", rkev1.ClassTransient}, []string{f.reason, f.class})
	require.ErrorContains(t, err, "no request was sent to the cloud: writing the state Secret s: ")
	require.Equal(t, state.PhaseGone, s.journal.Phase)

	s, client = underWay(t, "openstack")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.declareIntent(cancelled), context.Canceled)
	require.Equal(t, state.PhaseGone, s.journal.Phase, "the end came before the request")
	require.Contains(t, string(kept(t, client)[state.JournalKey]), "Intent", "the last save will say otherwise")
	s.conclude(errCancelled)
	require.Equal(t, ExitCancelled, s.finish(cancelled))
	journal, err := state.ReadJournal(kept(t, client))
	require.NoError(t, err)
	require.Equal(t, state.PhaseGone, journal.Phase)
	require.True(t, state.Of(kept(t, client)).NothingMade() || journal.Phase == state.PhaseGone)
}

// TestDeclareIntent_forgets the server that is gone: its key and address would be taken for the next one's.
func TestDeclareIntent_forgets(t *testing.T) {
	s, client := underWay(t, "openstack")
	for _, key := range []string{state.ServerKey, state.SSHPrivateKeyKey, state.SSHPublicKeyKey, state.SSHKnownHostsKey, state.CredentialKey} {
		require.NoError(t, s.state.Save(t.Context(), map[string][]byte{key: []byte("old")}))
	}
	s.privateKey, s.publicKey, s.knownHosts, s.server = []byte("a"), []byte("b"), []byte("c"), &state.Server{}
	require.NoError(t, s.declareIntent(t.Context()))
	require.Equal(t, state.PhaseIntent, s.journal.Phase)
	require.Equal(t, map[string][]byte{state.CredentialKey: []byte("old"), state.JournalKey: kept(t, client)[state.JournalKey]}, kept(t, client))
	require.Empty(t, s.privateKey)
	require.Empty(t, s.publicKey)
	require.Empty(t, s.knownHosts)
	require.Nil(t, s.server)
}

// TestRestore_of_every_state: what earlier attempts left, whole or broken.
func TestRestore_of_every_state(t *testing.T) {
	archive := func(config string) []byte {
		content, err := sshkeys.WriteArchive("/x/machines", []sshkeys.File{{Path: "pool-1/config.json", Content: []byte(config)}})
		require.NoError(t, err)
		return content
	}
	journal := func(phase string) []byte {
		return []byte(`{"operation":"create","attempt":1,"phase":"` + phase + `","time":"2026-01-01T00:00:00Z"}`)
	}
	for name, c := range map[string]struct {
		data     map[string][]byte
		lost     bool
		phase    state.Phase
		mayExist bool
		id, err  string
	}{
		"nothing":                     {},
		"a machine of Rancher's":      {data: map[string][]byte{state.ExtractedConfigKey: archive(`{"Driver":{"DropletID":7}}`)}, phase: state.PhaseBootstrapped, mayExist: true, id: "7"},
		"Rancher's, never finished":   {data: map[string][]byte{state.ExtractedConfigKey: archive(`{"Driver":{"DropletID":0}}`)}, phase: state.PhaseCreated, mayExist: true},
		"an intent":                   {data: map[string][]byte{state.JournalKey: journal("Intent")}, phase: state.PhaseIntent, mayExist: true},
		"a server that is gone":       {data: map[string][]byte{state.JournalKey: journal("Gone"), state.ExtractedConfigKey: archive(`{"Driver":{"DropletID":7}}`)}, phase: state.PhaseGone, id: "7"},
		"a state that was lost":       {lost: true, phase: state.PhaseLost, mayExist: true},
		"lost, said by the journal":   {data: map[string][]byte{state.JournalKey: journal("Lost")}, phase: state.PhaseLost, mayExist: true},
		"lost, but it came back":      {lost: true, data: map[string][]byte{state.JournalKey: journal("Recorded")}, phase: state.PhaseRecorded, mayExist: true},
		"a server being removed":      {data: map[string][]byte{state.JournalKey: journal("Removing")}, phase: state.PhaseRemoving, mayExist: true},
		"a broken archive":            {data: map[string][]byte{state.ExtractedConfigKey: []byte("MARKER")}, err: "reading the state's archive"},
		"an archive without a record": {data: map[string][]byte{state.ExtractedConfigKey: archive(`{"Driver":null}`)}, err: "it is no JSON object"},
		"a record that is no JSON":    {data: map[string][]byte{state.ExtractedConfigKey: archive(`MARKER`)}, err: "it is not the JSON of a machine"},
		"a broken journal":            {data: map[string][]byte{state.JournalKey: []byte("{MARKER")}, err: "journal.json"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := underWay(t, "digitalocean")
			s.state.Data, s.request.MayExist = c.data, c.lost
			err := s.restore()
			if c.err != "" {
				var f *failure
				require.ErrorAs(t, err, &f)
				require.Equal(t, []string{"StateUnreadable", rkev1.ClassInvalid}, []string{f.reason, f.class})
				require.ErrorContains(t, err, c.err)
				require.NotContains(t, err.Error(), "MARKER")
				return
			}
			require.NoError(t, err)
			require.Equal(t, []any{c.phase, c.mayExist}, []any{s.journal.Phase, mayHaveServer(s.journal.Phase)})
			require.Equal(t, c.id, s.record.Text("DropletID"))
			require.DirExists(t, s.dir.Path(""))
		})
	}
}

// TestNotes are bounded in number and length, and without secrets.
func TestNotes(t *testing.T) {
	s, _ := underWay(t, "none")
	s.redactor.Add("hunter2")
	for i := range 20 {
		s.note("note %d of hunter2 %s", i, strings.Repeat("x", 3000))
	}
	s.conclude(nil)
	require.Len(t, s.result.Notes, 16)
	for _, note := range s.result.Notes {
		require.LessOrEqual(t, len(note), 2<<10)
		require.NotContains(t, note, "hunter2")
	}
}

// TestRing keeps whole lines of the end, however the text is cut.
func TestRing(t *testing.T) {
	for name, c := range map[string]struct {
		writes []string
		want   string
	}{
		"nothing":            {nil, ""},
		"less than it holds": {[]string{"a\n", "b\n"}, "a\nb\n"},
		"as much":            {[]string{"1234567\n", "12\n", "34567\n", "\n"}, "12\n34567\n\n"},
		"more":               {[]string{"aaaa\n", "bbbb\n", "cccc\n"}, "bbbb\ncccc\n"},
		"a line too long":    {[]string{"aaaaaaaaaaaaaaaaaaaaa"}, "aaaaaaaaaa"},
		"in small pieces":    {[]string{"a", "a\nb", "b", "b\nc\n", "ddd\n"}, "bbb\nc\nddd\n"},
		"cut within a line":  {[]string{"aa\nbbbb\nc\n", "ddd\n"}, "c\nddd\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &ring{limit: 10}
			for _, text := range c.writes {
				n, err := r.Write([]byte(text))
				require.NoError(t, err)
				require.Equal(t, len(text), n)
			}
			require.LessOrEqual(t, len(r.bytes()), 10)
			require.Equal(t, c.want, string(r.bytes()))
		})
	}
}

// TestMarker is a file's name whatever the machine's UID is.
func TestMarker(t *testing.T) {
	for uid, want := range map[string]string{"3f-B7": "3f-B7", "../../etc": "etc", "a b;c": "abc", "": "pool-1", "///": "pool-1"} {
		s := &session{request: jobrunner.Request{InstanceName: "pool-1", Machine: jobrunner.MachineRef{UID: uid}}}
		require.Equal(t, want, s.marker())
	}
}

// TestCredentials_do_not_stay_in_the_record of the archive, but all else does.
func TestCredentials_do_not_stay_in_the_record(t *testing.T) {
	s, client := underWay(t, "digitalocean")
	s.secrets = []string{"hunter2-token"}
	s.record = clouds.Record{"AccessToken": "hunter2-token", "DropletID": json.Number("7")}
	s.advance(state.PhaseRecorded)
	require.NoError(t, s.saveProgress(t.Context()))
	dir, err := machinedir.New(t.TempDir(), "pool-1").Restore(kept(t, client)[state.ExtractedConfigKey])
	require.NoError(t, err)
	record, err := dir.Record()
	require.NoError(t, err)
	require.Empty(t, record.Text("AccessToken"))
	require.Equal(t, "7", record.Text("DropletID"))
	require.Equal(t, "hunter2-token", s.record.Text("AccessToken"), "the running driver keeps its own")
	journal, err := state.ReadJournal(kept(t, client))
	require.NoError(t, err)
	require.Equal(t, []any{state.Create, int32(3), state.PhaseRecorded, "pool-1", "digitalocean"},
		[]any{journal.Operation, journal.Attempt, journal.Phase, journal.InstanceName, journal.Driver})
	require.WithinDuration(t, time.Now(), journal.Time, time.Minute)
}

// TestMade: a server that this attempt asked for has cost money, one that was there before has not.
func TestMade(t *testing.T) {
	for name, c := range map[string]struct {
		driver  string
		journal state.Journal
		want    bool
	}{
		"asked for now":        {"digitalocean", state.Journal{Operation: state.Create, Attempt: 3, Phase: state.PhaseIntent}, true},
		"of an earlier one":    {"digitalocean", state.Journal{Operation: state.Create, Attempt: 2, Phase: state.PhaseIntent}, false},
		"known already":        {"digitalocean", state.Journal{Operation: state.Create, Attempt: 2, Phase: state.PhaseRecorded}, false},
		"a host of the user's": {"generic", state.Journal{Operation: state.Create, Attempt: 3, Phase: state.PhaseIntent}, false},
	} {
		s := &session{request: jobrunner.Request{Operation: state.Create, Attempt: 3}, profile: clouds.Of(c.driver), journal: c.journal}
		s.advance(state.PhaseCreated)
		s.advance(state.PhaseGone)
		require.Equal(t, c.want, s.result.Made, name)
	}
}
