package admission_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/drover-project/drover/admission"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// A control plane is kept for a Cluster that stays and has Machines, also when another Cluster goes that names it, or its own names another.
func TestControlPlanes(t *testing.T) {
	at := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: types.UID("uid-of-" + name)}
	}
	cluster := func(name, controlPlane string) *clusterv1.Cluster {
		return &clusterv1.Cluster{ObjectMeta: at(name), Spec: clusterv1.ClusterSpec{
			ControlPlaneRef: clusterv1.ContractVersionedObjectReference{APIGroup: rkev1.GroupVersion.Group, Kind: "RKEControlPlane", Name: controlPlane}}}
	}
	going := func(c *clusterv1.Cluster) *clusterv1.Cluster {
		c.DeletionTimestamp, c.Finalizers = new(metav1.Now()), []string{clusterv1.ClusterFinalizer}
		return c
	}
	paused := cluster("one", "cp")
	paused.Spec.Paused = new(true)
	elsewhere := cluster("one", "cp")
	elsewhere.Namespace = "team-b"
	machine := &clusterv1.Machine{ObjectMeta: at("m")}
	machine.Labels = map[string]string{clusterv1.ClusterNameLabel: "one"}
	copied := &clusterv1.Machine{ObjectMeta: at("copied")}
	copied.Labels = map[string]string{clusterv1.ClusterNameLabel: "copy"}
	served := copied.DeepCopy()
	served.Spec.Bootstrap.DataSecretName = new("data")
	owners := func(names ...string) []metav1.OwnerReference { // as Cluster API adds them
		refs := []metav1.OwnerReference{{APIVersion: "example.org/v1", Kind: "Cluster", Name: "another", UID: "uid-of-copy"}}
		for _, name := range names {
			refs = append(refs, metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: name, UID: types.UID("uid-of-" + name)})
		}
		return refs
	}
	const strays = "RKEControlPlane cp belongs to Cluster one, which has Machines. Its deletion would remove the authorities and tokens that their servers use: " +
		"the Cluster does not name it now; set spec.controlPlaneRef of the Cluster to it again: kubectl edit clusters.cluster.x-k8s.io one -n team-a"
	for what, tt := range map[string]struct {
		objects     []client.Object
		owners      []metav1.OwnerReference
		annotations map[string]string
		initialized bool
		deleting    bool
		says        string
	}{
		"its Cluster has a Machine": {objects: []client.Object{cluster("one", "cp"), machine},
			says: "RKEControlPlane cp belongs to Cluster one, which has Machines. Its deletion would remove the authorities and tokens that their servers use: " +
				"delete the Cluster, if you want to delete all of it: kubectl delete clusters.cluster.x-k8s.io one -n team-a"},
		"another Cluster goes that names it": {objects: []client.Object{cluster("one", "cp"), going(cluster("copy", "cp")), machine},
			says: "RKEControlPlane cp belongs to Cluster one, which has Machines. Before you delete copy, change or remove its spec.controlPlaneRef: kubectl edit clusters.cluster.x-k8s.io copy -n team-a"},
		"its owner has a Machine, the copy has not": {objects: []client.Object{cluster("one", "cp"), going(cluster("copy", "cp")), machine}, owners: owners("one", "copy"),
			says: "RKEControlPlane cp belongs to Cluster one, which has Machines. Before you delete copy, change or remove its spec.controlPlaneRef: kubectl edit clusters.cluster.x-k8s.io copy -n team-a"},
		"its owner goes, the copy never got a server": {objects: []client.Object{going(cluster("one", "cp")), cluster("copy", "cp"), machine, copied}, owners: owners("one", "copy")},
		"its owner goes, the copy may have a server": {objects: []client.Object{going(cluster("one", "cp")), cluster("copy", "cp"), machine, served}, owners: owners("one", "copy"),
			says: "RKEControlPlane cp belongs to Cluster copy, which has Machines. Before you delete one, change or remove its spec.controlPlaneRef: kubectl edit clusters.cluster.x-k8s.io one -n team-a"},
		"its Cluster names another now":            {objects: []client.Object{cluster("one", "ceee"), machine}, owners: owners("one"), says: strays},
		"and goes":                                 {objects: []client.Object{going(cluster("one", "ceee")), machine}, owners: owners("one")},
		"it has lost its owner, too":               {objects: []client.Object{cluster("one", "ceee"), machine}, initialized: true, says: strays},
		"it has only the label":                    {objects: []client.Object{cluster("one", "ceee"), machine}},
		"the copy got one of its own":              {objects: []client.Object{going(cluster("one", "cp")), cluster("copy", "copy"), machine, served}, owners: owners("one", "copy")},
		"its Cluster goes, too":                    {objects: []client.Object{going(cluster("one", "cp")), machine}},
		"its Cluster has no Machine":               {objects: []client.Object{cluster("one", "cp")}},
		"no Cluster names it":                      {objects: []client.Object{cluster("one", "another"), elsewhere, machine}},
		"clusterctl has moved it":                  {objects: []client.Object{cluster("one", "cp"), machine}, annotations: map[string]string{"clusterctl.cluster.x-k8s.io/delete-for-move": ""}},
		"its Cluster is paused, as while it moves": {objects: []client.Object{paused, machine}},
		"it is being deleted already":              {objects: []client.Object{cluster("one", "cp"), machine}, deleting: true},
	} {
		t.Run(what, func(t *testing.T) {
			scheme := runtime.NewScheme()
			require.NoError(t, clusterv1.AddToScheme(scheme))
			obj := &rkev1.RKEControlPlane{ObjectMeta: at("cp")}
			obj.Annotations, obj.OwnerReferences, obj.Labels = tt.annotations, tt.owners, map[string]string{clusterv1.ClusterNameLabel: "one"}
			obj.Status.Initialized = tt.initialized
			if tt.deleting {
				obj.DeletionTimestamp = new(metav1.Now())
			}
			raw, err := json.Marshal(obj)
			require.NoError(t, err)
			handler := &admission.ControlPlanes{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(tt.objects...).Build()}
			answer := handler.Handle(t.Context(), webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: runtime.RawExtension{Raw: raw}}})
			require.Equal(t, tt.says == "", answer.Allowed)
			require.Equal(t, tt.says, answer.Result.Message)
		})
	}
	answer := (&admission.ControlPlanes{}).Handle(t.Context(), webhook.Request{})
	require.False(t, answer.Allowed)
	require.Contains(t, answer.Result.Message, "decoding the RKEControlPlane")
}

// A pattern that costs too much to compile is rejected where the user writes it.
func TestControlPlaneSpecs(t *testing.T) {
	handle := func(raw string) webhook.Response {
		return (&admission.ControlPlaneSpecs{}).Handle(t.Context(), webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: []byte(raw)}}})
	}
	spec := func(pattern string) string {
		return `{"spec": {"registries": {"mirrors": {"docker.io": {"rewrite": {"` + pattern + `": "x"}}}}}}`
	}
	require.True(t, handle(spec("^library/(.*)")).Allowed)
	require.True(t, handle(`{"spec": {}}`).Allowed)
	for pattern, says := range map[string]string{
		"(": "is not a valid regular expression",
		"(?:" + strings.Repeat("a", 200) + "){1000}":  "compiles to more than 2000 instructions",
		"(?:" + strings.Repeat("a", 3000) + "){1000}": "has more than 256 bytes",
	} {
		answer := handle(spec(pattern))
		require.False(t, answer.Allowed)
		require.Contains(t, answer.Result.Message, `spec.registries.mirrors["docker.io"].rewrite: the pattern "(`)
		require.Contains(t, answer.Result.Message, says)
	}
	require.Equal(t, int32(400), handle("").Result.Code)
	require.Contains(t, handle(`{"spec": {"agentEnvVars": [`+strings.Repeat("{},", 3000)+`{}]}}`).Result.Message, "spec.agentEnvVars has more than 2048 elements")
}

// A change of an argument that cannot change after the cluster was created is rejected where the user
// writes it. The planner decides where a selector picks the machines.
func TestControlPlaneSpecs_fixedArguments(t *testing.T) {
	handle := func(established bool, before, after string) webhook.Response {
		object := func(spec string) runtime.RawExtension {
			status := `{}`
			if established {
				status = `{"initialized": true}`
			}
			return runtime.RawExtension{Raw: []byte(`{"spec": ` + spec + `, "status": ` + status + `}`)}
		}
		return (&admission.ControlPlaneSpecs{}).Handle(t.Context(), webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: admissionv1.Update, OldObject: object(before), Object: object(after)}})
	}
	global := func(config string) string { return `{"machineGlobalConfig": {` + config + `}}` }
	selected := `{"machineSelectorConfig": [{"config": {"cluster-cidr": "10.50.0.0/16"}}]}`
	for what, tt := range map[string]struct{ before, after, says string }{
		"changed":           {global(`"cluster-cidr": "10.42.0.0/16"`), global(`"cluster-cidr": "10.50.0.0/16"`), "spec.machineGlobalConfig: cluster-cidr cannot change after the cluster was created: set it to 10.42.0.0/16 again"},
		"added":             {global(``), global(`"service-cidr": "10.50.0.0/16"`), "service-cidr cannot change after the cluster was created: remove it"},
		"removed":           {global(`"cluster-dns": "10.43.0.11"`), global(``), "cluster-dns cannot change after the cluster was created: set it to 10.43.0.11 again"},
		"to null":           {global(`"cni": "cilium"`), global(`"cni": null`), "cni cannot change after the cluster was created: set it to cilium again"},
		"a flannel backend": {global(``), global(`"flannel-backend": "none"`), "flannel-backend cannot change after the cluster was created: set it to vxlan again"},
		"the default":       {global(``), global(`"flannel-backend": "vxlan", "cni": ["calico"]`), ""},
		"a list for text":   {global(`"cluster-cidr": "10.42.0.0/16,fd00::/56"`), global(`"cluster-cidr": ["10.42.0.0/16", "fd00::/56"]`), ""},
		"with a selector":   {global(``), selected, ""},
		"another argument":  {global(`"cluster-cidr": "10.42.0.0/16"`), global(`"cluster-cidr": "10.42.0.0/16", "debug": true`), ""},
	} {
		t.Run(what, func(t *testing.T) {
			answer := handle(true, tt.before, tt.after)
			require.Equal(t, tt.says == "", answer.Allowed, answer.Result.Message)
			if tt.says != "" {
				require.Contains(t, answer.Result.Message, tt.says)
			}
			require.True(t, handle(false, tt.before, tt.after).Allowed, "the cluster does not exist yet")
		})
	}
}
