package capi

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// naming is a Cluster that names a control plane of the group's kind.
func naming(namespace, name, controlPlane string, labels map[string]string) *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Spec: clusterv1.ClusterSpec{
		ControlPlaneRef: clusterv1.ContractVersionedObjectReference{APIGroup: rkev1.GroupVersion.Group, Kind: "RKEControlPlane", Name: controlPlane}}}
}

func TestClustersNaming(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(AddToScheme(scheme), rkev1.AddToScheme(scheme)))
	foreign := naming("a", "of-another-kind", "cp", nil)
	foreign.Spec.ControlPlaneRef.Kind = "KubeadmControlPlane"
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(naming("a", "one", "cp", nil), naming("a", "other", "of-it", nil), naming("b", "elsewhere", "cp", nil), foreign,
		naming("a", "filtered", "cp", map[string]string{clusterv1.WatchLabel: "ours"})).Build()
	made := &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "cp"}}
	request := func(name string) ctrl.Request {
		return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "a", Name: name}}
	}
	require.ElementsMatch(t, []ctrl.Request{request("one"), request("filtered")}, clustersNaming(reader, "")(t.Context(), made))
	require.Equal(t, []ctrl.Request{request("filtered")}, clustersNaming(reader, "ours")(t.Context(), made))
	made.OwnerReferences = []metav1.OwnerReference{{Kind: "Cluster", Name: "one"}}
	require.Empty(t, clustersNaming(reader, "")(t.Context(), made), "Cluster API watches those that a Cluster owns")
}
