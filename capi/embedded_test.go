package capi_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/testkit"
)

// patience is far more than anything here takes, on a machine that does something else too.
const patience = 2 * time.Minute

// embedded runs the core in a manager and returns where its webhooks are.
func embedded(t *testing.T) (webhooks string) {
	t.Helper()
	mgr, port := newManager(t)
	_, err := capi.Setup(t.Context(), mgr, capi.Options{Embedded: true, Concurrency: 2})
	require.NoError(t, err)
	run(t, mgr, mgr.GetCache())
	return fmt.Sprintf("https://127.0.0.1:%d", port)
}

// TestEmbedded_bringsAClusterToItsInfrastructure shows that Cluster API's reconcilers work with our caches: they find the CRD of a
// contract by its label, own what a Cluster names, and let it go again.
func TestEmbedded_bringsAClusterToItsInfrastructure(t *testing.T) {
	address := embedded(t)
	c := testkit.Client(t, newScheme(t))
	namespace := testkit.Namespace(t)
	infra := &rkev1.RKECluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"},
		Spec: rkev1.RKEClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "198.18.0.1", Port: 6443}}}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"}, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: "c1"}}}
	require.NoError(t, c.Create(t.Context(), infra))
	require.NoError(t, c.Create(t.Context(), cluster))
	testkit.Eventually(t, patience, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(infra), infra); err != nil {
			return err
		}
		if len(infra.OwnerReferences) == 0 || infra.OwnerReferences[0].UID != cluster.UID {
			return fmt.Errorf("the RKECluster is not owned: %v", infra.OwnerReferences)
		}
		return nil
	})
	infra.Status.Ready, infra.Status.Initialization.Provisioned = true, new(true)
	require.NoError(t, c.Status().Update(t.Context(), infra))
	testkit.Eventually(t, patience, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		if done := cluster.Status.Initialization.InfrastructureProvisioned; done == nil || !*done {
			return fmt.Errorf("the Cluster has not seen it: %+v", cluster.Status.Conditions)
		}
		return nil
	})
	require.Equal(t, "198.18.0.1", cluster.Spec.ControlPlaneEndpoint.Host)
	require.NoError(t, c.Delete(t.Context(), cluster))
	testkit.Eventually(t, patience, func() error {
		if !apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster)) {
			return errStillThere
		}
		return nil
	})
	answersAll(t, address)
}

// A control plane that is made after its Cluster, which has looked for it in vain, is taken up at once, and not when Cluster API looks again after half a minute or,
// where there was one before, much more.
func TestEmbedded_takesUpAControlPlaneThatIsMadeAnew(t *testing.T) {
	embedded(t)
	c := testkit.Client(t, newScheme(t))
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace(t), Name: "c1"}, Spec: clusterv1.ClusterSpec{
		ControlPlaneRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEControlPlane", Name: "cp"}}}
	require.NoError(t, c.Create(t.Context(), cluster))
	testkit.Eventually(t, patience, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		if missing := conditions.Get(cluster, clusterv1.ClusterControlPlaneAvailableCondition); missing == nil || missing.Reason != clusterv1.ClusterControlPlaneDoesNotExistReason {
			return fmt.Errorf("the Cluster has not looked for it: %v", missing)
		}
		return nil
	})
	made := &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "cp"}}
	require.NoError(t, c.Create(t.Context(), made))
	testkit.Eventually(t, 20*time.Second, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(made), made); err != nil {
			return err
		}
		if len(made.OwnerReferences) == 0 {
			return errors.New("no Cluster owns it")
		}
		return nil
	})
	require.Equal(t, cluster.UID, made.OwnerReferences[0].UID)
}

// answersAll asks each webhook of the table for its opinion, as the API server does.
func answersAll(t *testing.T, address string) {
	t.Helper()
	asks := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer asks.CloseIdleConnections()
	for _, hook := range capi.Webhooks() {
		kind := metav1.GroupVersionKind{Group: hook.Rule.APIGroups[0], Version: "v1beta2", Kind: "Any"}
		body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
			Request: &admissionv1.AdmissionRequest{UID: "u", Kind: kind, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte("{}")}}})
		require.NoError(t, err)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+hook.Path, bytes.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		response, err := asks.Do(request)
		require.NoError(t, err)
		var review admissionv1.AdmissionReview
		require.NoError(t, json.NewDecoder(response.Body).Decode(&review), hook.Path)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode, hook.Path)
		require.EqualValues(t, "u", review.Response.UID, hook.Path)
	}
}

// TestEmbedded_wakesWhatWasMadeWhileItsClusterWasPaused has one of each kind that stands alone, with nothing but its Cluster to wake it. Its
// Paused condition tells whether its controller has looked.
func TestEmbedded_wakesWhatWasMadeWhileItsClusterWasPaused(t *testing.T) {
	embedded(t)
	c := testkit.Client(t, newScheme(t))
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace(t), Name: "c1"}, Spec: clusterv1.ClusterSpec{Paused: new(true),
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: "c1"}}}
	meta := metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "alone", Labels: map[string]string{clusterv1.ClusterNameLabel: cluster.Name}}
	machine := clusterv1.MachineSpec{ClusterName: cluster.Name, Bootstrap: clusterv1.Bootstrap{DataSecretName: new("bootstrap")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: "none"}}
	selected := map[string]string{"set": "alone"}
	selector := metav1.LabelSelector{MatchLabels: selected}
	template := clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: selected}, Spec: machine}
	all := map[string]interface {
		client.Object
		conditions.Getter
	}{
		"Machine":    &clusterv1.Machine{ObjectMeta: meta, Spec: machine},
		"MachineSet": &clusterv1.MachineSet{ObjectMeta: meta, Spec: clusterv1.MachineSetSpec{ClusterName: cluster.Name, Replicas: new(int32(0)), Selector: selector, Template: template}},
		"MachineDeployment": &clusterv1.MachineDeployment{ObjectMeta: meta,
			Spec: clusterv1.MachineDeploymentSpec{ClusterName: cluster.Name, Replicas: new(int32(0)), Selector: selector, Template: template}},
		"MachineHealthCheck": &clusterv1.MachineHealthCheck{ObjectMeta: meta, Spec: clusterv1.MachineHealthCheckSpec{ClusterName: cluster.Name, Selector: selector,
			Checks: clusterv1.MachineHealthCheckChecks{NodeStartupTimeoutSeconds: new(int32(600))}}},
	}
	require.NoError(t, c.Create(t.Context(), cluster))
	for kind, obj := range all {
		require.NoError(t, c.Create(t.Context(), obj), kind)
	}
	for _, paused := range []bool{true, false, true} {
		was := cluster.DeepCopy()
		cluster.Spec.Paused = new(paused)
		require.NoError(t, c.Patch(t.Context(), cluster, client.MergeFrom(was)))
		testkit.Eventually(t, patience, func() error {
			for kind, obj := range all {
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
					return err
				}
				if got := conditions.Get(obj, clusterv1.PausedCondition); got == nil || (got.Status == metav1.ConditionTrue) != paused {
					return fmt.Errorf("the %s has not seen that its Cluster has paused %t: %+v", kind, paused, got)
				}
			}
			return nil
		})
	}
}
