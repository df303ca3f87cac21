package facts_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
)

var kind = facts.Kind{Name: "DigitaloceanMachine", Resource: "digitaloceanmachines", Singular: "digitaloceanmachine", ShortNames: []string{"dom"}}

func TestKindOf(t *testing.T) {
	read, _ := facts.KindOf(metav1.APIResource{
		Kind: "DigitaloceanMachine", Name: "digitaloceanmachines", SingularName: "digitaloceanmachine", ShortNames: []string{"dom"}, Namespaced: true,
	})
	require.Equal(t, kind, read)
	for _, c := range []struct {
		resource, kind string
		want           bool
	}{
		{"digitaloceanmachines", "DigitaloceanMachine", true},
		{"digitaloceanmachines/status", "DigitaloceanMachine", false},
		{"digitaloceanmachinetemplates", "DigitaloceanMachineTemplate", false},
		{"custommachines", "CustomMachine", true},
		{"machinery", "Machinery", false},
	} {
		_, holdsMachines := facts.KindOf(metav1.APIResource{Name: c.resource, Kind: c.kind})
		require.Equal(t, c.want, holdsMachines, c.resource)
	}
}

func TestKindMatches(t *testing.T) {
	for _, word := range []string{
		"DigitaloceanMachine", "digitaloceanmachines", "digitaloceanmachine", "dom", "DOM",
		"digitaloceanmachine.rke-machine.cattle.io", "dom.rke-machine.cattle.io", "DigitaloceanMachines.RKE-Machine.cattle.io",
		"digitaloceanmachines.v1.rke-machine.cattle.io",
	} {
		require.True(t, kind.Matches(word), word)
	}
	for _, word := range []string{
		"machine", "", ".", "digitaloceanmachine.", "digitaloceanmachine.other.group", "digitaloceanmachinetemplate", "digitalocean",
		"digitaloceanmachine.v2.rke-machine.cattle.io", "digitaloceanmachine.rke-machine.cattle.io.evil.example",
	} {
		require.False(t, kind.Matches(word), word)
	}
	// A server that does not tell the singular must not make the empty word mean a kind.
	require.False(t, facts.Kind{Name: "XMachine", Resource: "xmachines"}.Matches(""))
	require.True(t, facts.Kind{Name: "XMachine", Resource: "xmachines"}.Matches("xmachine"))
}

func TestIsCAPIMachineWord(t *testing.T) {
	for word, want := range map[string]bool{
		"ma": true, "machine": true, "Machines": true, "machine.cluster.x-k8s.io": true, "machines.v1beta2.cluster.x-k8s.io": true,
		"": false, "m": false, "machine.": false, "machine.rke-machine.cattle.io": false, "md": false, "digitaloceanmachine": false,
	} {
		require.Equal(t, want, facts.IsCAPIMachineWord(word), word)
	}
}

// object is a machine as the API has it.
func object() map[string]any {
	return map[string]any{
		"metadata": map[string]any{
			"name": "web-1", "namespace": "shop",
			"ownerReferences": []any{
				map[string]any{"apiVersion": "apps/v1", "kind": "Machine", "name": "other", "uid": "x"},
				map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "pool-abc", "uid": "y"},
			},
		},
		"spec": map[string]any{"region": "nyc3", "providerID": "digitalocean://1", "common": map[string]any{"cloudCredentialSecretName": "cattle-global-data:cc"}},
		"status": map[string]any{"addresses": []any{
			map[string]any{"type": "InternalIP", "address": "198.18.0.2"}, map[string]any{"type": "ExternalIP", "address": "198.18.0.3"}}},
	}
}

func TestDecodeMachineRefusesNonsense(t *testing.T) {
	for name, object := range map[string]map[string]any{
		"addresses are a word": {"status": map[string]any{"addresses": "none"}},
		"metadata is a list":   {"metadata": []any{}},
		"spec is a number":     {"spec": int64(3)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := facts.DecodeMachine(kind, object)
			require.ErrorContains(t, err, "decoding a DigitaloceanMachine: ")
		})
	}
}

// TestDecodeMachineReadsOddConditions: one odd machine must not hide all others from a list.
func TestDecodeMachineReadsOddConditions(t *testing.T) {
	condition := func(extra map[string]any) []metav1.Condition {
		c := map[string]any{"type": "Ready", "status": "True", "reason": "Ready", "message": "m"}
		maps.Copy(c, extra)
		m, err := facts.DecodeMachine(kind, map[string]any{"status": map[string]any{"phase": "Running", "conditions": []any{c, "nonsense", nil}}})
		require.NoError(t, err)
		require.Equal(t, "Running", m.Phase())
		return m.Status.Conditions
	}
	plain := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", Message: "m"}
	require.Equal(t, []metav1.Condition{plain}, condition(nil), "as other systems write them")
	require.Equal(t, []metav1.Condition{plain}, condition(map[string]any{"lastTransitionTime": ""}), "as Rancher writes them")
	require.Equal(t, []metav1.Condition{plain}, condition(map[string]any{"lastTransitionTime": int64(3), "observedGeneration": "x"}))
	full := plain
	full.ObservedGeneration = 7
	full.LastTransitionTime = metav1.Date(2026, 3, 1, 12, 0, 0, 0, metav1.Now().UTC().Location())
	got := condition(map[string]any{"lastTransitionTime": "2026-03-01T12:00:00Z", "observedGeneration": int64(7)})
	require.Equal(t, []metav1.Condition{full}, got)
}

func TestIsCalled(t *testing.T) {
	source := object()
	m, err := facts.DecodeMachine(kind, source)
	require.NoError(t, err)
	require.Equal(t, object(), source, "what was decoded is still the caller's")
	for _, called := range []string{"web-1", "pool-abc", "machine/pool-abc", "ma/pool-abc", "dom/web-1", "DigitaloceanMachine/web-1", m.Ref()} {
		require.True(t, m.IsCalled(called), called)
	}
	for _, called := range []string{"web", "WEB-1", "machine/web-1", "dom/pool-abc", "vsphere/web-1", "", "/", "/web-1", "dom/", "machine/", "dom/web-1/x"} {
		require.False(t, m.IsCalled(called), called)
	}
	bare := &facts.Machine{Kind: kind, ObjectMeta: metav1.ObjectMeta{Name: "web-1"}}
	for _, called := range []string{"", "machine/", "ma/"} {
		require.False(t, bare.IsCalled(called), "a machine without CAPI Machine is not called %q", called)
	}
}

func TestRef(t *testing.T) {
	m := &facts.Machine{Kind: facts.Kind{Name: "XMachine"}, ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	require.Equal(t, "xmachine.rke-machine.cattle.io/a", m.Ref(), "servers need not tell the singular")
	require.True(t, m.IsCalled(m.Ref()), "what is told to a user means the machine")
}

func TestCAPIMachineName(t *testing.T) {
	owner := func(version, kind, name string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name}
	}
	for name, c := range map[string]struct {
		owners []metav1.OwnerReference
		label  string
		want   string
	}{
		"none":                {},
		"owner":               {owners: []metav1.OwnerReference{owner("cluster.x-k8s.io/v1beta2", "Machine", "a")}, label: "b", want: "a"},
		"an older version":    {owners: []metav1.OwnerReference{owner("cluster.x-k8s.io/v1beta1", "Machine", "a")}, want: "a"},
		"label only":          {label: "b", want: "b"},
		"another kind":        {owners: []metav1.OwnerReference{owner("cluster.x-k8s.io/v1beta2", "MachineSet", "a")}, want: ""},
		"another group":       {owners: []metav1.OwnerReference{owner("machine.openshift.io/v1beta1", "Machine", "a")}, label: "b", want: "b"},
		"a group like CAPI's": {owners: []metav1.OwnerReference{owner("cluster.x-k8s.io.example/v1", "Machine", "a")}, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := &facts.Machine{ObjectMeta: metav1.ObjectMeta{OwnerReferences: c.owners}}
			if c.label != "" {
				m.Labels = map[string]string{rkev1.CAPIMachineLabel: c.label}
			}
			require.Equal(t, c.want, m.CAPIMachineName())
		})
	}
}

func TestPhase(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		phase   string
		deleted *metav1.Time
		want    string
	}{
		"before the manager saw it": {want: "Pending"},
		"what the manager says":     {phase: rkev1.PhaseFailed, want: "Failed"},
		"deleting":                  {phase: rkev1.PhaseRunning, deleted: &now, want: "Deleting"},
		"deleting, never seen":      {deleted: &now, want: "Deleting"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &facts.Machine{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: c.deleted}, Status: rkev1.RKEMachineStatus{Phase: c.phase}}
			require.Equal(t, c.want, m.Phase())
		})
	}
}

func TestCredentialRef(t *testing.T) {
	for name, c := range map[string]struct {
		spec, status        string
		wantNamespace, want string
	}{
		"none":                     {},
		"own namespace":            {spec: "cc", wantNamespace: "shop", want: "cc"},
		"another namespace":        {spec: "cattle-global-data:cc", wantNamespace: "cattle-global-data", want: "cc"},
		"the one that was used":    {status: "old:cc", wantNamespace: "old", want: "cc"},
		"spec before status":       {spec: "new", status: "old", wantNamespace: "shop", want: "new"},
		"a second colon is a name": {spec: "a:b:c", wantNamespace: "a", want: "b:c"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &facts.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Status: rkev1.RKEMachineStatus{CloudCredentialSecretName: c.status}}
			m.Spec.Common.CloudCredentialSecretName = c.spec
			ref := m.Credential()
			require.Equal(t, c.wantNamespace, ref.Namespace)
			require.Equal(t, c.want, ref.Name)
		})
	}
}

func TestAddress(t *testing.T) {
	of := func(pairs ...string) string {
		m := &facts.Machine{}
		for i := 0; i < len(pairs); i += 2 {
			m.Status.Addresses = append(m.Status.Addresses, clusterv1.MachineAddress{Type: clusterv1.MachineAddressType(pairs[i]), Address: pairs[i+1]})
		}
		return m.Address()
	}
	require.Empty(t, of())
	require.Equal(t, "b", of("InternalIP", "a", "ExternalIP", "b", "ExternalDNS", "c"))
	require.Equal(t, "c", of("Hostname", "h", "InternalIP", "a", "ExternalDNS", "c"))
	require.Equal(t, "a", of("InternalDNS", "d", "InternalIP", "a"))
	require.Equal(t, "d", of("Hostname", "h", "InternalDNS", "d"))
	require.Equal(t, "h", of("Hostname", "h"))
	require.Equal(t, "first", of("ExternalIP", "first", "ExternalIP", "second"))
	require.Equal(t, "a", of("ExternalIP", "", "InternalIP", "a"), "an empty address reaches nobody")
	require.Empty(t, of("Pigeon", "coo"))
}

// TestMachineAsTheAPIHasIt decodes all that the CLI shows.
func TestMachineAsTheAPIHasIt(t *testing.T) {
	m, err := facts.DecodeMachine(kind, map[string]any{
		"apiVersion": "rke-machine.cattle.io/v1", "kind": "DigitaloceanMachine",
		"metadata": map[string]any{
			"name": "web-1", "namespace": "shop", "uid": "u", "creationTimestamp": "2026-03-01T11:00:00Z", "deletionTimestamp": "2026-03-01T12:00:00Z",
			"finalizers": []any{"drover.cattle.io/machine"}, "labels": map[string]any{"cluster.x-k8s.io/cluster-name": "store"},
			"annotations": map[string]any{"cluster.x-k8s.io/paused": ""},
		},
		"spec": map[string]any{"size": "s-1vcpu-1gb", "tags": []any{"a"}, "backups": true, "unknown": map[string]any{"deep": []any{int64(1)}}},
		"status": map[string]any{
			"phase": "Creating", "jobName": "web-1-create-2", "attempts": int64(2), "nextAttemptTime": "2026-03-01T12:07:00Z", "instanceName": "pool-web-1",
			"lastAttempt":  map[string]any{"operation": "create", "number": int64(2), "outcome": "Failed", "class": "Quota", "message": "422", "logTail": "tail", "endTime": "2026-03-01T12:00:00Z"},
			"somethingNew": "of a newer manager",
		},
	})
	require.NoError(t, err)
	when := func(text string) metav1.Time {
		at, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return metav1.NewTime(at.Local())
	}
	ended, next, deleted := when("2026-03-01T12:00:00Z"), when("2026-03-01T12:07:00Z"), when("2026-03-01T12:00:00Z")
	require.Equal(t, &facts.Machine{
		Kind: kind,
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-1", Namespace: "shop", UID: "u", CreationTimestamp: when("2026-03-01T11:00:00Z"), DeletionTimestamp: &deleted,
			Finalizers: []string{"drover.cattle.io/machine"}, Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "store"},
			Annotations: map[string]string{"cluster.x-k8s.io/paused": ""},
		},
		Status: rkev1.RKEMachineStatus{
			Phase: "Creating", JobName: "web-1-create-2", Attempts: 2, NextAttemptTime: &next, InstanceName: "pool-web-1",
			LastAttempt: &rkev1.AttemptStatus{Operation: "create", Number: 2, Outcome: "Failed", Class: "Quota", Message: "422", LogTail: "tail", EndTime: &ended},
		},
	}, m)
	require.Equal(t, "Deleting", m.Phase())
	require.Equal(t, "store", m.ClusterName())
}
