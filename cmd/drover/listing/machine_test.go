package listing_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// conditions are written as NAME=STATUS/REASON/MESSAGE.
func conditions(texts ...string) []metav1.Condition {
	var list []metav1.Condition
	for _, text := range texts {
		name, rest, _ := strings.Cut(text, "=")
		parts := append(strings.SplitN(rest, "/", 3), "", "")
		list = append(list, metav1.Condition{Type: name, Status: metav1.ConditionStatus(parts[0]), Reason: parts[1], Message: parts[2]})
	}
	return list
}

func TestReasonOfAMachine(t *testing.T) {
	going := facts.Machine{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: now}}}
	for name, c := range map[string]struct {
		conditions      []string
		machine         facts.Machine
		ready, paused   bool
		reason, message string
	}{
		"unseen":          {reason: "NotReconciled", message: "no manager has looked at it yet"},
		"deletion unseen": {conditions: []string{"Ready=True/Ready/"}, machine: going, ready: true, reason: "NotReconciled", message: "no manager has looked at it yet"},
		"being deleted":   {conditions: []string{"Ready=False/JobRunning/at work"}, machine: going, reason: "JobRunning", message: "at work"},
		"pause of the Cluster unseen": {conditions: []string{"Ready=False/WaitingForRetry/quota", "Paused=False/NotPaused/"}, machine: facts.Machine{ClusterPaused: true},
			paused: true, reason: "Paused", message: "the Cluster is paused: spec.paused is true"},
		"pause of its own unseen": {machine: facts.Machine{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{clusterv1.PausedAnnotation: ""}}},
			paused: true, reason: "Paused", message: "it has the annotation cluster.x-k8s.io/paused"},
		"ready":                {conditions: []string{"Ready=True/Ready/fine"}, ready: true},
		"not ready":            {conditions: []string{"CreateJob=False/X/x", "Ready=False/WaitingForRetry/quota"}, reason: "WaitingForRetry", message: "quota"},
		"not known":            {conditions: []string{"Ready=Unknown/JobRunning/at work"}, reason: "JobRunning", message: "at work"},
		"paused":               {conditions: []string{"Ready=False/WaitingForRetry/quota", "Paused=True/Paused/the Cluster is paused"}, paused: true, reason: "Paused", message: "the Cluster is paused"},
		"paused, no one says":  {conditions: []string{"Ready=False/WaitingForRetry/quota", "Paused=True/Paused/"}, paused: true, reason: "Paused", message: "reconciling is paused"},
		"paused while it runs": {conditions: []string{"Ready=True/Ready/", "Paused=True/Paused/m"}, ready: true, paused: true, reason: "Paused", message: "m"},
		"not paused any more":  {conditions: []string{"Ready=True/Ready/", "Paused=False/NotPaused/"}, ready: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.machine.Status.Conditions = conditions(c.conditions...)
			got := listing.NewMachine(&c.machine, nil)
			require.Equal(t, []any{c.ready, c.paused, c.reason, c.message}, []any{got.Ready, got.Paused, got.Reason, got.Message})
		})
	}
}

// TestPausedMachine: no attempt follows while it is paused.
func TestPausedMachine(t *testing.T) {
	next := now.Add(9 * time.Minute)
	m := listing.Machine{Reason: "WaitingForRetry", NextAttemptTime: &next}
	require.Contains(t, render(t, listing.MachineTable([]listing.Machine{m}, false, now), false), "WaitingForRetry (retry in 9m)")
	m.Reason, m.Paused = "Paused", true
	require.NotContains(t, render(t, listing.MachineTable([]listing.Machine{m}, false, now), false), "retry")
}

func TestMachinesAreSorted(t *testing.T) {
	machine := func(namespace, name, kind string) *facts.Machine {
		return &facts.Machine{Kind: facts.Kind{Name: kind}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	list := listing.NewMachineList([]*facts.Machine{
		machine("b", "a", "XMachine"), machine("a", "b", "XMachine"), machine("a", "a", "YMachine"), machine("a", "a", "XMachine"), machine("a", "a-1", "XMachine"),
	}, nil)
	var order []string
	for _, m := range list.Items {
		order = append(order, m.Namespace+"/"+m.Name+"/"+m.Kind)
	}
	require.Equal(t, []string{"a/a/XMachine", "a/a/YMachine", "a/a-1/XMachine", "a/b/XMachine", "b/a/XMachine"}, order)
	require.Equal(t, "MachineList", list.Kind)
}

// TestHostileMachine: what drivers and clouds write into a machine is not obeyed by the terminal that shows it.
func TestHostileMachine(t *testing.T) {
	m := &facts.Machine{Kind: facts.Kind{Name: "XMachine"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", CreationTimestamp: metav1.NewTime(now)}}
	m.Spec.ProviderID = "\x1b]0;owned\x07id"
	m.Status.InstanceName, m.Status.JobName, m.Status.Phase = "\x1b[2Jname", "a\nFAKE  ROW", "Running\ttab"
	m.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineExternalIP, Address: "198.18.0.1\n198.18.0.2"}}
	m.Status.Conditions = conditions("Ready=False/\x1b[31mRed/m")
	list := listing.NewMachineList([]*facts.Machine{m}, nil)
	shown := render(t, listing.MachineTable(list.Items, false, now), true)
	require.NotContains(t, shown, "\x1b")
	require.NotContains(t, shown, "\a")
	rows := strings.Split(shown, "\n")
	require.Len(t, rows, 3, "one row for one machine: %q", shown)
	require.Equal(t, []string{"a", "x", "<none>", "Running", "tab", "198.18.0.1", "198.18.0.2", "0s", "Red", "XMachine", "id", "name", "a", "FAKE", "ROW"}, strings.Fields(rows[1]))
	raw, err := json.Marshal(list)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "\x1b", "JSON escapes it")
}
