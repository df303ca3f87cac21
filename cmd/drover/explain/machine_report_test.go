package explain_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/explain"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/state"
)

// TestDocuments: what programs read keeps its form.
func TestDocuments(t *testing.T) {
	s := failed(rkev1.WaitingForRetryReason, rkev1.ClassQuota, "422 droplet limit")
	s.Events = []corev1.Event{event("uid-m", "web-1", "CreateJob", "quota", 3)}
	s.Problems = []string{"Secrets are forbidden"}
	for name, report := range map[string]*explain.Report{
		"failed.json":   explained(s, "drover"),
		"node.json":     explained(changed(running(), func(s *facts.Snapshot) { s.CAPIMachine.Status.NodeRef.Name = "web-1" }), "drover"),
		"checksum.json": explainedDriver(driverSnapshots()["checksum"], "drover"),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.MarshalIndent(report, "", "  ")
			require.NoError(t, err)
			file := filepath.Join("testdata", name)
			if *update {
				require.NoError(t, os.WriteFile(file, append(got, '\n'), 0o600))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err, "run the test with -update")
			require.Equal(t, string(want), string(got)+"\n")
			asYAML, err := yaml.Marshal(report)
			require.NoError(t, err)
			back, err := yaml.YAMLToJSON(asYAML)
			require.NoError(t, err)
			require.JSONEq(t, string(got), string(back))
		})
	}
}

// TestListsAreLists: a program can go over what there is to do, also when that is nothing.
func TestListsAreLists(t *testing.T) {
	for name, snapshot := range machineSnapshots() {
		raw, err := json.Marshal(explained(snapshot, "drover"))
		require.NoError(t, err)
		document := map[string]any{}
		require.NoError(t, json.Unmarshal(raw, &document))
		require.IsType(t, []any{}, document["next"], name)
		require.NotEmpty(t, document["verdict"], name)
		require.Equal(t, "Explanation", document["kind"], name)
		require.Equal(t, "cli.drover.cattle.io/v1", document["apiVersion"], name)
	}
}

// TestEveryScreenHelps: whoever is not ready is told what to do, and by commands that are called as the CLI was.
func TestEveryScreenHelps(t *testing.T) {
	for name, snapshot := range machineSnapshots() {
		report := explained(snapshot, "kubectl drover")
		if report.Blocker != nil {
			require.NotEmpty(t, report.Next, name)
		}
		for _, next := range report.Next {
			require.NotContains(t, strings.ReplaceAll(next, "kubectl drover", ""), "drover why", name)
			require.NotContains(t, next, "{cmd}", name)
		}
		var out bytes.Buffer
		require.NoError(t, explain.Render(&out, report))
		require.LessOrEqual(t, strings.Count(out.String(), "\n"), 55, "%s: one screen", name)
	}
}

func TestMachineFacts(t *testing.T) {
	of := func(s *facts.Snapshot) string {
		var list []string
		for _, fact := range explained(s, "drover").Facts {
			list = append(list, fact.Name+" "+fact.Value)
		}
		return strings.Join(list, " | ")
	}
	s := running()
	require.Equal(t, "driver digitalocean | cluster store | address 198.18.0.11 | providerID digitalocean://4711 | server web-1 | age 15m", of(s))
	s.Machine.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineExternalIP, Address: "\x1b[31m198.18.0.11\nand more"}}
	s.Machine.Spec.ProviderID, s.Machine.Status.InstanceName, s.Machine.Labels = "\u202ex://", "\a", nil
	s.Machine.CreationTimestamp = ago(-time.Hour)
	require.Equal(t, "driver digitalocean | address 198.18.0.11 and more | providerID x:// | age 0s", of(s), "what a driver says is not obeyed by a terminal")
	s.Driver = nil
	s.Machine.CreationTimestamp = metav1.Time{}
	require.Equal(t, "driver digitalocean | address 198.18.0.11 and more | providerID x://", of(s))
}

func TestMachineLog(t *testing.T) {
	of := func(s *facts.Snapshot) *explain.Log { return explained(s, "drover").Log }
	lines := func(n int) string { return strings.Repeat("line\n", n) }
	s := failed(rkev1.WaitingForRetryReason, rkev1.ClassQuota, "m")
	s.State.Log = lines(20)
	s.Failure = &facts.Failure{Machine: "pool-1", Step: "instruction install", Output: lines(9) + "\x1b[31munknown flag: --x\n"}
	said := of(s)
	require.Equal(t, "instruction install on the server of Machine pool-1", said.Source)
	require.Equal(t, "unknown flag: --x", said.Lines[7], "what a server says is not obeyed by a terminal")
	require.Equal(t, said, explain.Cluster(&facts.ClusterSnapshot{Cluster: &clusterv1.Cluster{}, Failure: s.Failure}, "drover").Log)
	s.Failure = nil
	require.Equal(t, &explain.Log{Source: "log.txt of Secret web-1-machine-state, attempt 2 to create", Lines: strings.Fields(lines(8))}, of(s))
	s.Machine.Status.JobName, s.Machine.Status.LastAttempt.Operation = "refuge-"+string(s.Machine.UID)+"-rm-1", "remove"
	require.Equal(t, "status.lastAttempt.logTail, attempt 2 to remove", of(s).Source, "the state of the namespace that goes has the log of the creation")
	s.Machine.Status.JobName, s.Machine.Status.LastAttempt.Operation = "", "create"
	s.State.Result = nil
	require.Equal(t, "log.txt of Secret web-1-machine-state", of(s).Source)
	s.State = nil
	require.Equal(t, &explain.Log{Source: "status.lastAttempt.logTail, attempt 2 to create", Lines: []string{"the tail"}}, of(s), "who may not read Secrets sees its end")
	s.Machine.Status.LastAttempt.LogTail = "\n \n"
	require.Nil(t, of(s))
	s.Machine.Status.LastAttempt = nil
	require.Nil(t, of(s))
	gone := &facts.Snapshot{Now: now, Name: "web-9", State: &facts.State{Name: "web-9-machine-state", Log: "removed\n", Result: &state.Result{Operation: state.Remove, Attempt: 1}}}
	require.Equal(t, []string{"removed"}, of(gone).Lines)
}

// TestEventsOfVolumes: the request Secret goes while the pod still runs, and the kubelet says that it cannot read it again.
func TestEventsOfVolumes(t *testing.T) {
	s := withJob(running(), &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}})
	s.Events = []corev1.Event{event("uid-p", "web-1-create-2-abcde", "FailedMount", "no Secret", 2), event("uid-m", "web-1", "FailedMount", "of another", 1)}
	of := func(phase corev1.PodPhase) []explain.Event {
		s.Pods[0].Status.Phase = phase
		return explained(s, "drover").Events
	}
	require.Len(t, of(corev1.PodPending), 2)
	for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed} {
		require.Len(t, of(phase), 1)
		require.Equal(t, "of another", of(phase)[0].Message)
	}
}

func TestEvents(t *testing.T) {
	s := running()
	for minute := 9; minute > 0; minute-- {
		s.Events = append(s.Events, event("uid-m", "web-1", "Reason", "message", minute))
	}
	s.Events[8].Message, s.Events[8].Type, s.Events[8].Reason, s.Events[8].InvolvedObject.Name = "\x1b[31mred\nred", "", "\u202eR", "web\x00-1"
	s.Events[7].Series = &corev1.EventSeries{Count: 40, LastObservedTime: metav1.NewMicroTime(now.Add(-time.Second))}
	events := explained(s, "drover").Events
	require.Len(t, events, 6, "the newest, which fit on the screen")
	require.Equal(t, explain.Event{Time: now.Add(-6 * time.Minute), Type: "Warning", Reason: "Reason", Object: "DigitaloceanMachine/web-1", Message: "message", Count: 3}, events[0])
	require.Equal(t, explain.Event{Time: now.Add(-time.Second), Type: "Warning", Reason: "Reason", Object: "DigitaloceanMachine/web-1", Message: "message", Count: 40}, events[4])
	require.Equal(t, explain.Event{Time: now.Add(-time.Minute), Type: "Normal", Reason: "R", Object: "DigitaloceanMachine/web-1", Message: "red red", Count: 3}, events[5])
}

// FuzzMachine: whatever a driver, a cloud or a user writes, the screen obeys nobody, and says something.
func FuzzMachine(f *testing.F) {
	f.Add("CreateJob", "False", "WaitingForRetry", "Failed", "Quota", "\x1b[31m422\x1b[0m", "log\nlog", "web-1", "digitalocean://1", false)
	f.Add("DeleteJob", "Unknown", "JobCancelled", "Cancelled", "", "", "", "refuge-uid-m-rm-1", "", true)
	f.Add("Paused", "True", "Paused", "", "", "{name}", "\u202e", "$(x)", "{cmd}", true)
	f.Fuzz(func(t *testing.T, name, status, reason, outcome, class, message, log, word, providerID string, deleting bool) {
		s := failed(reason, class, message)
		s.Machine.UID, s.CAPIMachine.UID = types.UID("uid-m"), "uid-c"
		s.Machine.Status.Conditions = append(s.Machine.Status.Conditions, condition(name, metav1.ConditionStatus(status), reason, message, 1))
		s.Machine.Status.LastAttempt.Outcome, s.Machine.Status.LastAttempt.Operation, s.Machine.Status.JobName = outcome, word, word
		s.Machine.Status.Phase, s.Machine.Spec.ProviderID, s.Machine.Status.InstanceName = status, providerID, word
		s.Machine.Spec.Common.CloudCredentialSecretName, s.State.Log, s.State.Result.Reason = word, log, reason
		s.CAPIMachine.Status.Phase, s.CAPIMachine.Spec.InfrastructureRef.Kind = message, word
		s.Problems = []string{message}
		s.State.Journal.Operation = state.Operation(word)
		requirePlain(t, explain.Remains(s.Machine, s.State))
		if deleting {
			since := ago(time.Minute)
			s.Machine.DeletionTimestamp = &since
		}
		absent := *s
		absent.Machine = nil
		for _, snapshot := range []*facts.Snapshot{s, &absent} {
			var out bytes.Buffer
			report := explained(snapshot, "drover")
			require.NoError(t, explain.Render(&out, report))
			require.NotEmpty(t, report.Verdict)
			require.False(t, slices.Contains(report.Next, ""))
			requirePlain(t, out.String())
		}
	})
}

// requirePlain: the text has lines, and nothing that a terminal obeys.
func requirePlain(t *testing.T, text string) {
	t.Helper()
	require.False(t, strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
	}), "%q", text)
}
