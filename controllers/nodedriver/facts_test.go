package nodedriver

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/event"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
)

func TestUsers_areCountedAndTheFirstNamed(t *testing.T) {
	for count, want := range map[int]string{
		1: "1 object uses (AcmeMachine team-a/m0)",
		2: "2 objects use (AcmeMachine team-a/m0, AcmeMachine team-a/m1)",
		5: "5 objects use (AcmeMachine team-a/m0, AcmeMachine team-a/m1, AcmeMachine team-a/m2, AcmeMachine team-a/m3, AcmeMachine team-a/m4)",
		9: "9 objects use (AcmeMachine team-a/m0, AcmeMachine team-a/m1, AcmeMachine team-a/m2, AcmeMachine team-a/m3, AcmeMachine team-a/m4 and 4 more)",
	} {
		var u users
		for i := range count {
			u.add("AcmeMachine", &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: fmt.Sprintf("m%d", i)}})
		}
		require.Equal(t, want, u.use(""))
		require.Contains(t, u.use("them"), " them (AcmeMachine team-a/m0")
	}
}

func TestReadClaim(t *testing.T) {
	for name, tt := range map[string]struct {
		annotations map[string]string
		want        state.Claim
	}{
		"none":         {nil, state.Claim{Try: 1}},
		"whole":        {map[string]string{attemptAnnotation: "7", tryAnnotation: "3", rkev1.RequestHashAnnotation: "h"}, state.Claim{Attempt: 7, Try: 3, Hash: "h"}},
		"negative":     {map[string]string{attemptAnnotation: "-1", tryAnnotation: "-1"}, state.Claim{Try: 1}},
		"no number":    {map[string]string{attemptAnnotation: "one", tryAnnotation: "0x2"}, state.Claim{Try: 1}},
		"out of range": {map[string]string{attemptAnnotation: "99999999999", tryAnnotation: "2147483648"}, state.Claim{Try: 1}},
		"the highest":  {map[string]string{attemptAnnotation: "100000", tryAnnotation: "100000"}, state.Claim{Attempt: 100000, Try: 100000}},
		"beyond it":    {map[string]string{attemptAnnotation: "100001", tryAnnotation: "2147483647"}, state.Claim{Try: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, readClaim(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: tt.annotations}}))
		})
	}
}

func acme() *v3.NodeDriver {
	return &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "u1"},
		Spec: v3.NodeDriverSpec{URL: "https://drivers.test/acme", Checksum: "ab", Active: true}}
}

// A probe is made again when its answer may be another one, and not else.
func TestProbeHash(t *testing.T) {
	before := probeHash(acme())
	for name, tt := range map[string]struct {
		change func(*v3.NodeDriver)
		same   bool
	}{
		"nothing":          {func(*v3.NodeDriver) {}, true},
		"case of checksum": {func(nd *v3.NodeDriver) { nd.Spec.Checksum = "AB" }, true},
		"description":      {func(nd *v3.NodeDriver) { nd.Spec.Description = "d" }, true},
		"credential fields": {func(nd *v3.NodeDriver) {
			nd.Annotations = map[string]string{v3.PrivateCredentialFieldsAnnotation: "token"}
		}, true},
		"active":             {func(nd *v3.NodeDriver) { nd.Spec.Active = false }, true},
		"provider IDs":       {func(nd *v3.NodeDriver) { nd.Spec.ProviderIDTemplate = "acme://{ID}" }, true},
		"its own name, said": {func(nd *v3.NodeDriver) { nd.Spec.DisplayName = "acme" }, true},
		"checksum":           {func(nd *v3.NodeDriver) { nd.Spec.Checksum = "cd" }, false},
		"URL":                {func(nd *v3.NodeDriver) { nd.Spec.URL += "2" }, false},
		"version":            {func(nd *v3.NodeDriver) { nd.Spec.Version = "2" }, false},
		"display name":       {func(nd *v3.NodeDriver) { nd.Spec.DisplayName = "other" }, false},
		"accepts anything":   {func(nd *v3.NodeDriver) { nd.Spec.InsecureSkipChecksum = true }, false},
		"asked for":          {func(nd *v3.NodeDriver) { nd.Annotations = map[string]string{rkev1.RetryAnnotation: "1"} }, false},
		"another object":     {func(nd *v3.NodeDriver) { nd.UID = "u2" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			nd := acme()
			tt.change(nd)
			if tt.same {
				require.Equal(t, before, probeHash(nd))
				return
			}
			require.NotEqual(t, before, probeHash(nd))
		})
	}
}

func TestOlderComesFirst(t *testing.T) {
	at := func(name string, second int64) *v3.NodeDriver {
		return &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(second, 0))},
			Spec: v3.NodeDriverSpec{DisplayName: "acme"}}
	}
	taken := func(nd *v3.NodeDriver, all ...*v3.NodeDriver) string {
		return nameTaken(nd, []v3.NodeDriver{*nd, *all[0]})
	}
	require.Equal(t, "z", taken(at("a", 2), at("z", 1)))
	require.Empty(t, taken(at("z", 1), at("a", 2)))
	require.Equal(t, "a", taken(at("b", 1), at("a", 1)), "made in one second: the name decides")
	require.Empty(t, taken(at("a", 1), at("b", 1)))
	other := at("z", 1)
	other.Spec.DisplayName = "other"
	require.Empty(t, taken(at("a", 2), other))
}

func TestOptions_areWhereEachKindHasThem(t *testing.T) {
	fields := map[string]any{"region": "x"}
	object := func(version, kind string, content map[string]any) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{Object: content}
		obj.SetAPIVersion(version)
		obj.SetKind(kind)
		return obj
	}
	machine := object("rke-machine.cattle.io/v1", "AcmeMachine", map[string]any{"spec": fields})
	template := object("rke-machine.cattle.io/v1", "AcmeMachineTemplate", map[string]any{"spec": map[string]any{"template": map[string]any{"spec": fields}}})
	config := object("rke-machine-config.cattle.io/v1", "AcmeConfig", map[string]any{"region": "x"})
	require.Equal(t, fields, given(machine, nil))
	require.Equal(t, fields, given(template, nil))
	require.Equal(t, "x", given(config, nil)["region"], "a config has its fields at the top")
	require.Empty(t, given(object("rke-machine.cattle.io/v1", "AcmeMachine", map[string]any{"spec": "odd"}), nil))
	require.Empty(t, given(object("rke-machine.cattle.io/v1", "AcmeMachineTemplate", map[string]any{}), nil))
}

func withStatus(change func(*v3.NodeDriver)) *v3.NodeDriver {
	nd := acme()
	if change != nil {
		change(nd)
	}
	return nd
}

func ready(status metav1.ConditionStatus) func(*v3.NodeDriver) {
	return func(nd *v3.NodeDriver) {
		nd.Status.Conditions = []metav1.Condition{{Type: v3.ReadyCondition, Status: status}}
	}
}

func TestPruneTurns_areWhatMayMakeSomethingUseless(t *testing.T) {
	for name, tt := range map[string]struct {
		was, is func(*v3.NodeDriver)
		want    bool
	}{
		"nothing":          {nil, nil, false},
		"a message":        {ready(metav1.ConditionFalse), nil, false},
		"another binary":   {nil, func(nd *v3.NodeDriver) { nd.Status.Digest = "d" }, true},
		"another name":     {nil, func(nd *v3.NodeDriver) { nd.Spec.DisplayName = "other" }, true},
		"its kinds follow": {nil, func(nd *v3.NodeDriver) { nd.Status.DriverName = "other" }, true},
		"became ready":     {ready(metav1.ConditionFalse), ready(metav1.ConditionTrue), true},
		"made inactive":    {nil, func(nd *v3.NodeDriver) { nd.Spec.Active = false }, true},
		"built in now":     {nil, func(nd *v3.NodeDriver) { nd.Spec.URL = "local://" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := pruneTurns().Update(event.TypedUpdateEvent[*v3.NodeDriver]{ObjectOld: withStatus(tt.was), ObjectNew: withStatus(tt.is)})
			require.Equal(t, tt.want, got)
		})
	}
	require.True(t, pruneTurns().Delete(event.TypedDeleteEvent[*v3.NodeDriver]{Object: acme()}))
	require.True(t, pruneTurns().Create(event.TypedCreateEvent[*v3.NodeDriver]{Object: acme()}))
}

func TestUnsettled(t *testing.T) {
	require.True(t, unsettled(acme()), "nothing is known of it yet")
	require.True(t, unsettled(withStatus(ready(metav1.ConditionUnknown))))
	require.True(t, unsettled(withStatus(ready(metav1.ConditionFalse))))
	require.False(t, unsettled(withStatus(ready(metav1.ConditionTrue))))
	require.False(t, unsettled(withStatus(func(nd *v3.NodeDriver) { nd.Spec.Active = false })))
	require.False(t, unsettled(withStatus(func(nd *v3.NodeDriver) { nd.Spec.URL = "local://" })), "a built-in driver has no binary of its own")
}
