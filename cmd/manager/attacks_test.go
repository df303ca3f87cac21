package main

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/admission"
	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi/workload"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// abuse is one thing that a tenant tries.
type abuse struct {
	name string
	// act is what he does. Its error has refused in it; when that is empty he may do it.
	act     func(t *testing.T, w *tenants) error
	refused string
	// holds is waited for after what he may do.
	holds func(t *testing.T, w *tenants) error
}

// TestAttacks: the admin of a namespace, with the rights that Kubernetes' role and ours give him there, tries what docs/development/security.md lists. After
// each attack the other tenant's objects, the manager's and those that all share are what they were.
func TestAttacks(t *testing.T) {
	w := newTenants(t)
	var all []abuse
	for _, some := range [][]abuse{attacksOnTheAPI(), attacksByDocuments(), attacksOnMachines()} {
		all = append(all, some...)
	}
	told, err := os.ReadFile("../../docs/development/security.md")
	require.NoError(t, err)
	memory := w.memory(t)
	for _, tt := range all {
		t.Run(tt.name, func(t *testing.T) {
			require.True(t, strings.Contains(string(told), "- "+tt.name+"\n"), "docs/development/security.md lists the attack")
			before := w.untouched(t)
			err := tt.act(t, w)
			if tt.refused != "" {
				require.ErrorContains(t, err, tt.refused)
			} else {
				require.NoError(t, err)
			}
			if tt.holds != nil {
				testkit.Eventually(t, patience, func() error { return tt.holds(t, w) })
			}
			require.Equal(t, before, w.untouched(t))
		})
	}
	require.NotContains(t, w.seen(t), othersSecret)
	require.Empty(t, w.listener.calls(), "nobody came to his API server")
	after := w.memory(t)
	t.Logf("%d attacks; peak memory of the manager %d MiB, before %d MiB", len(all), after, memory)
	require.Less(t, after-memory, 256, "MiB of memory that the attacks cost")
	begin := time.Now()
	w.server(w.theirs(t), "m2")
	require.Less(t, time.Since(begin), time.Minute, "the other tenant gets a server in its usual time")
}

// attacksOnTheAPI are refused by RBAC.
func attacksOnTheAPI() []abuse {
	create := func(name string, obj func(w *tenants) client.Object) abuse {
		return abuse{name: name, refused: "cannot create resource",
			act: func(t *testing.T, w *tenants) error { return w.mallory.Create(t.Context(), obj(w)) }}
	}
	remove := func(name string, obj func(w *tenants) client.Object) abuse {
		return abuse{name: name, refused: "cannot delete resource",
			act: func(t *testing.T, w *tenants) error { return w.mallory.Delete(t.Context(), obj(w)) }}
	}
	edit := func(name string, obj func(w *tenants) client.Object, patch string) abuse {
		return abuse{name: name, refused: "cannot patch resource",
			act: func(t *testing.T, w *tenants) error {
				return w.mallory.Patch(t.Context(), obj(w), client.RawPatch("application/merge-patch+json", []byte(patch)))
			}}
	}
	pretend := func(name string, user func(w *tenants) string) abuse {
		return abuse{name: name, refused: "cannot impersonate",
			act: func(t *testing.T, w *tenants) error {
				return w.as(t, user(w), w.mallory.RESTMapper()).List(t.Context(), &corev1.SecretList{}, client.InNamespace(w.there))
			}}
	}
	hooks := func(*tenants) client.Object {
		return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: admission.ConfigurationName}}
	}
	return []abuse{
		create("creates a NodeDriver", func(*tenants) client.Object {
			return &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "mallory"}, Spec: v3.NodeDriverSpec{URL: "https://198.18.0.1/x", Checksum: strings.Repeat("e3", 32), Active: true}}
		}),
		edit("has a NodeDriver load the attacker's driver", func(*tenants) client.Object {
			return &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "digitalocean"}}
		},
			`{"spec":{"url":"https://198.18.0.1/x"}}`),
		create("puts a driver into the cache", func(*tenants) client.Object {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: driver.CacheNamespace, Name: driver.CachePartName(strings.Repeat("ab", 32), 0)}}
		}),
		create("runs a pod where the drivers are cached", func(*tenants) client.Object {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: driver.CacheNamespace, Name: "p"}}
		}),
		create("writes into the manager's namespace", func(*tenants) client.Object {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: charts.DefaultNamespace, Name: "x"}}
		}),
		edit("gives the webhooks another authority", func(*tenants) client.Object {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: charts.DefaultNamespace, Name: "drover-serving-cert"}}
		}, `{"data":null}`),
		remove("takes the webhooks away", hooks),
		edit("has the webhooks call the attacker's server", hooks, `{"webhooks":[]}`),
		remove("takes a policy away", func(*tenants) client.Object {
			return &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: admission.StatePolicyName}}
		}),
		remove("takes a policy's binding away", func(*tenants) client.Object {
			return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: admission.OptionsPolicyName}}
		}),
		remove("takes a kind away", func(*tenants) client.Object {
			return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "digitaloceanmachines.rke-machine.cattle.io"}}
		}),
		{name: "reads where the webhooks are", refused: "cannot get resource", act: func(t *testing.T, w *tenants) error {
			for _, resource := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
				for _, verb := range []string{"get", "list", "watch"} {
					review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
						Verb: verb, Group: admissionregistrationv1.GroupName, Resource: resource}}}
					require.NoError(t, w.mallory.Create(t.Context(), review))
					require.False(t, review.Status.Allowed, "%s %s", verb, resource)
				}
			}
			return w.mallory.Get(t.Context(), client.ObjectKey{Name: admission.ConfigurationName}, &admissionregistrationv1.MutatingWebhookConfiguration{})
		}},
		{name: "asks the webhooks about another's namespace", act: func(t *testing.T, w *tenants) error {
			caller := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			for _, path := range []string{admission.MachineKindsPath, "/mutate-cluster-x-k8s-io-v1beta2-cluster", "/0123456789abcdef0123456789abcdef" + admission.MachineKindsPath} {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+w.webhooks+path, strings.NewReader("{}"))
				require.NoError(t, err)
				answer, err := caller.Do(request)
				require.NoError(t, err)
				require.NoError(t, answer.Body.Close())
				require.Equal(t, http.StatusNotFound, answer.StatusCode, path)
			}
			return nil
		}},
		{name: "reads another's credential", refused: "cannot get resource", act: func(t *testing.T, w *tenants) error {
			return w.mallory.Get(t.Context(), client.ObjectKey{Namespace: w.there, Name: "cred"}, &corev1.Secret{})
		}},
		{name: "reads all Secrets", refused: "cannot list resource", act: func(t *testing.T, w *tenants) error {
			return w.mallory.List(t.Context(), &corev1.SecretList{})
		}},
		pretend("pretends to be the manager", func(*tenants) string { return "system:serviceaccount:" + charts.DefaultNamespace + ":" + charts.Name }),
		pretend("pretends to be another's Job", func(w *tenants) string { return "system:serviceaccount:" + w.there + ":" + jobrunner.AccessName("m1") }),
		{name: "asks for the manager's token", refused: "cannot create resource", act: func(t *testing.T, w *tenants) error {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: charts.DefaultNamespace, Name: charts.Name}}
			return w.mallory.SubResource("token").Create(t.Context(), account, &authenticationv1.TokenRequest{})
		}},
		{name: "binds the attacker's account to the manager's role", refused: "not currently held", act: func(t *testing.T, w *tenants) error {
			return w.mallory.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.here, Name: "more"},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: charts.Name},
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.here, Name: "mallory"}}})
		}},
		edit("edits another's machine", func(w *tenants) client.Object { return w.victim.DeepCopy() }, `{"metadata":{"finalizers":null}}`),
	}
}

// attacksByDocuments are objects that the manager, or Cluster API in it, reads.
func attacksByDocuments() []abuse {
	attacks := []abuse{
		{name: "checks variables by a pattern that is megabytes when it is compiled", refused: "does not serve ClusterClasses", act: func(t *testing.T, w *tenants) error {
			class := classOf(w.here, "pattern")
			class.Spec.Variables = []clusterv1.ClusterClassVariable{{Name: "v", Schema: clusterv1.VariableSchema{OpenAPIV3Schema: clusterv1.JSONSchemaProps{
				Type: "string", Pattern: "^(?:" + strings.Repeat("(a?)", 120) + "){1000}$"}}}}
			return w.mallory.Create(t.Context(), class)
		}},
		{name: "has a Cluster made of another's ClusterClass", refused: "does not serve ClusterClasses", act: func(t *testing.T, w *tenants) error {
			return w.mallory.Create(t.Context(), clusterOfClass(w.here, w.there, "theirs"))
		}},
		{name: "rewrites images by a pattern that is megabytes when it is compiled", refused: "compiles to more than 2000 instructions", act: func(t *testing.T, w *tenants) error {
			control := &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: w.here, Name: "pattern"}}
			control.Spec.Registries = &rkev1.Registry{Mirrors: map[string]rkev1.Mirror{"docker.io": {Rewrites: map[string]string{
				"(?:" + strings.Repeat("a", 240) + "){1000}": "x"}}}}
			return w.mallory.Create(t.Context(), control)
		}},
		{name: "deletes the control plane of a Cluster that has servers", refused: "which has Machines", act: func(t *testing.T, w *tenants) error {
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.here, Name: "keeps"}}
			cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: rkev1.GroupVersion.Group, Kind: "RKEControlPlane", Name: "kept"}
			cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: rkev1.GroupVersion.Group, Kind: "RKECluster", Name: "none"}
			machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.here, Name: "keeps", Labels: map[string]string{clusterv1.ClusterNameLabel: "keeps"}}}
			machine.Spec = clusterv1.MachineSpec{ClusterName: "keeps", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("none")},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke-machine.cattle.io", Kind: "DigitaloceanMachine", Name: "none"}}
			kept := &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: w.here, Name: "kept"}}
			for _, obj := range []client.Object{kept, cluster, machine} {
				require.NoError(t, w.mallory.Create(t.Context(), obj))
			}
			testkit.Eventually(t, patience, func() error { // until the manager knows of them
				if w.mallory.Delete(t.Context(), kept, client.DryRunAll) == nil {
					return errors.New("it may be deleted")
				}
				return nil
			})
			return w.mallory.Delete(t.Context(), kept)
		}},
		{name: "names machines by a template that has no end", refused: "range is not supported", act: func(t *testing.T, w *tenants) error {
			pool := poolOf(w.here, "c1")
			pool.Spec.MachineNaming.Template = endless
			return w.mallory.Create(t.Context(), pool)
		}},
		{name: "has a ClusterResourceSet expand megabytes", act: func(t *testing.T, w *tenants) error {
			bomb := "a: &a " + strings.Repeat("x", 10<<10) + "\nb: [" + strings.Repeat("*a,", 100_000) + "*a]\n"
			set := &addonsv1.ClusterResourceSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.here, Name: "bomb"}}
			set.Spec.ClusterSelector.MatchLabels = map[string]string{"bomb": "here"}
			set.Spec.Resources = []addonsv1.ResourceRef{{Kind: "ConfigMap", Name: "bomb"}}
			return errors.Join(w.mallory.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.here, Name: "bomb"}, Data: map[string]string{"b": bomb}}),
				w.mallory.Create(t.Context(), set),
				w.mallory.Patch(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.here, Name: "c1"}},
					client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"bomb":"here"}}}`))))
		}, holds: func(t *testing.T, w *tenants) error {
			set := &addonsv1.ClusterResourceSet{}
			return errors.Join(w.mallory.Get(t.Context(), client.ObjectKey{Namespace: w.here, Name: "bomb"}, set),
				hasCondition(set.Status.Conditions, addonsv1.ClusterResourceSetResourcesAppliedCondition, addonsv1.ClusterResourceSetResourcesAppliedInternalErrorReason))
		}},
		{name: "fills the manager with kubeconfigs of a megabyte", act: func(t *testing.T, w *tenants) error {
			mine, content := w.mine(t), strings.Repeat("x", 1_000_000)
			for i := range 100 {
				if err := w.mallory.Create(t.Context(), mine.kubeconfigSecret(fmt.Sprintf("none-%d", i), content)); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: "has the attacker's API server answer a gigabyte packed into a megabyte", act: func(t *testing.T, w *tenants) error {
			var called atomic.Bool
			bomb := packed(t, bytes.Repeat([]byte(" "), 1<<20), 1024)
			liar := newListener(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				_, _ = w.Write(bomb)
				called.Store(true)
			})
			err := w.mallory.Create(t.Context(), w.mine(t).kubeconfigSecret("liar", liar.kubeconfig("", "token: his-own")))
			makeCluster(t, w.mallory, w.here, "liar")
			testkit.Eventually(t, patience, func() error {
				if !called.Load() {
					return errors.New("nobody has called yet")
				}
				return nil
			})
			for _, shown := range liar.calls() {
				require.Equal(t, "Bearer his-own", shown)
			}
			return err
		}},
		{name: "holds the webhooks' connections with reviews that never end", act: func(t *testing.T, w *tenants) error {
			attack(t, w.admin, w.webhooks)
			for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
				require.Less(t, slowestAdmission(t, w.admin, w.there), 9*time.Second, "the API server waits for 10")
			}
			return nil
		}},
		{name: "scans with another's credential", act: func(t *testing.T, w *tenants) error {
			return w.mallory.Create(t.Context(), scanOf(w.here, "foreign", w.there+":cred"))
		}, holds: scanEnds("foreign", rkev1.CredentialNotSharedReason)},
		{name: "scans under a name that is taken", act: func(t *testing.T, w *tenants) error {
			return errors.Join(w.mallory.Create(t.Context(), w.mine(t).secret("taken-scan-1", "x", "y")), w.mallory.Create(t.Context(), scanOf(w.here, "taken", "cred")))
		}, holds: scanEnds("taken", rkev1.NameTakenReason)},
	}
	for _, k := range []struct{ name, with, cluster, user, field string }{
		{"token", "the file of a token", "", "tokenFile: %s", "users[].user.tokenFile"},
		{"command", "a command", "", "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: /bin/cat, args: [%s]}", "users[].user.exec"},
		{"primes", "a key that takes long to sign with", "", "client-certificate-data: UEVN, client-key-data: " + slowKey + "%.0s", "users[].user.client-key-data"},
		{"proxy", "a proxy", ", proxy-url: 'http://198.18.0.1'", "token: %s", "clusters[].cluster.proxy-url"},
		{"key", "the files of a certificate", "", "client-certificate: /x, client-key: %s", "users[].user.client-certificate"},
		{"impersonation", "another user", "", "token: %s, as: 'system:admin'", "users[].user.as"},
	} {
		attacks = append(attacks, abuse{name: "writes a kubeconfig with " + k.with,
			act: func(t *testing.T, w *tenants) error {
				kubeconfig := w.listener.kubeconfig(k.cluster, fmt.Sprintf(k.user, w.tokenFile))
				err := w.mallory.Create(t.Context(), w.mine(t).kubeconfigSecret(k.name, kubeconfig))
				makeCluster(t, w.mallory, w.here, k.name)
				return err
			}, holds: func(t *testing.T, w *tenants) error {
				cluster := &clusterv1.Cluster{}
				err := w.mallory.Get(t.Context(), client.ObjectKey{Namespace: w.here, Name: k.name}, cluster)
				if err != nil {
					return err
				}
				if err := hasCondition(cluster.Status.Conditions, workload.KubeconfigAcceptedCondition, workload.KubeconfigRefusedReason); err != nil {
					return err
				}
				require.Contains(t, meta.FindStatusCondition(cluster.Status.Conditions, workload.KubeconfigAcceptedCondition).Message, k.field)
				return nil
			}})
	}
	return attacks
}

// slowKey is as large as a key of eight primes and 16,384 bits.
var slowKey = base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: make([]byte, 10<<10)}))

func hasCondition(conditions []metav1.Condition, kind, reason string) error {
	if found := meta.FindStatusCondition(conditions, kind); found == nil || found.Status != metav1.ConditionFalse || found.Reason != reason {
		return fmt.Errorf("waiting for %s/%s: %+v", kind, reason, conditions)
	}
	return nil
}

func scanOf(ns, name, credential string) *rkev1.ServerScan {
	return &rkev1.ServerScan{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: rkev1.ServerScanSpec{Driver: "digitalocean", CloudCredentialSecretName: credential}}
}

func scanEnds(name, reason string) func(*testing.T, *tenants) error {
	return func(t *testing.T, w *tenants) error {
		t.Helper()
		scan := &rkev1.ServerScan{}
		return errors.Join(w.mallory.Get(t.Context(), client.ObjectKey{Namespace: w.here, Name: name}, scan), hasCondition(scan.Status.Conditions, rkev1.ScanDoneCondition, reason))
	}
}

// attacksOnMachines are what he writes beside machines of his own.
func attacksOnMachines() []abuse {
	says := func(name, condition, reason string) func(*testing.T, *tenants) error {
		return func(t *testing.T, w *tenants) error {
			t.Helper()
			return w.mine(t).machineReason(machineOf(w.here, name, "DigitaloceanMachine", ""), condition, reason)
		}
	}
	asks := func(name string, operation state.Operation) func(*testing.T, *tenants) error {
		return func(t *testing.T, w *tenants) error {
			t.Helper()
			err := w.checkRequest(t, client.ObjectKey{Namespace: w.here, Name: jobrunner.JobName(name, operation, 1)})
			if err != nil {
				err = errors.Join(err, w.mine(t).machineReason(machineOf(w.here, name, "DigitaloceanMachine", ""), "", ""))
			}
			return err
		}
	}
	bootstrap := func(name string, content func(t *testing.T) []byte) func(*testing.T, *tenants) error {
		return func(t *testing.T, w *tenants) error {
			t.Helper()
			mine := w.mine(t)
			secret := mine.secret(name, "", "")
			secret.StringData, secret.Data = nil, map[string][]byte{"value": content(t)}
			err := w.mallory.Create(t.Context(), secret)
			mine.machineOfCluster(name, func(owner *clusterv1.Machine, _ *unstructured.Unstructured) {
				owner.Spec.Bootstrap.DataSecretName = &name
			})
			return err
		}
	}
	merge := func(t *testing.T, w *tenants, obj client.Object, format string, args ...any) error {
		t.Helper()
		return w.mallory.Patch(t.Context(), obj, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, format, args...)))
	}
	return []abuse{
		{name: "names another's credential", refused: rkev1.AllowedNamespacesAnnotation, act: func(t *testing.T, w *tenants) error {
			return w.mallory.Create(t.Context(), machineOf(w.here, "plain", "DigitaloceanMachine", w.there+":cred"))
		}},
		{name: "names another's credential in a machine that looks as if Cluster API had made it", act: func(t *testing.T, w *tenants) error {
			w.mine(t).machineOfCluster("cloned", func(_ *clusterv1.Machine, obj *unstructured.Unstructured) {
				obj.SetAnnotations(map[string]string{"cluster.x-k8s.io/cloned-from-name": "x"})
				require.NoError(t, unstructured.SetNestedField(obj.Object, w.there+":cred", "spec", "common", "cloudCredentialSecretName"))
			})
			return nil
		}, holds: says("cloned", rkev1.CredentialReadyCondition, rkev1.CredentialNotSharedReason)},
		{name: "writes another's credential into a machine's status", act: func(t *testing.T, w *tenants) error {
			obj := w.mine(t).machineOfCluster("status", func(_ *clusterv1.Machine, obj *unstructured.Unstructured) {
				unstructured.RemoveNestedField(obj.Object, "spec", "common")
			})
			return w.mallory.Status().Patch(t.Context(), obj, client.RawPatch("application/merge-patch+json",
				fmt.Appendf(nil, `{"status":{"cloudCredentialSecretName":%q,"instanceName":"m1","jobName":"m1-create-1"}}`, w.there+":cred")))
		}, holds: func(t *testing.T, w *tenants) error {
			obj := machineOf(w.here, "status", "DigitaloceanMachine", "")
			return errors.Join(merge(t, w, obj, `{"metadata":{"annotations":{%q:"now"}}}`, rkev1.RetryAnnotation), says("status", rkev1.CredentialReadyCondition, rkev1.CredentialNotSharedReason)(t, w))
		}},
		{name: "takes another namespace's bootstrap Secret", act: func(t *testing.T, w *tenants) error {
			w.mine(t).machineOfCluster("elsewhere", func(owner *clusterv1.Machine, _ *unstructured.Unstructured) {
				owner.Spec.Bootstrap.DataSecretName = new("../../" + w.there + "/secrets/bootstrap")
			})
			return nil
		}, holds: says("elsewhere", rkev1.BootstrapReadyCondition, rkev1.BootstrapSecretInvalidReason)},
		{name: "gives bootstrap data that unpacks to megabytes", act: bootstrap("bomb", func(t *testing.T) []byte {
			t.Helper()
			return packed(t, []byte("#cloud-config\na: ["+strings.Repeat("a,", 2<<20-20)+"]\n"), 1)
		}), holds: says("bomb", rkev1.BootstrapReadyCondition, rkev1.UserDataTooLargeReason)},
		{name: "gives bootstrap data of a megabyte", act: bootstrap("oversize", func(*testing.T) []byte { return bytes.Repeat([]byte("#"), 1_000_000) }),
			holds: says("oversize", rkev1.BootstrapReadyCondition, rkev1.UserDataTooLargeReason)},
		{name: "has another's Machine for an owner", act: func(t *testing.T, w *tenants) error {
			obj := machineOf(w.here, "owned", "DigitaloceanMachine", "cred")
			obj.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "c1", rkev1.CAPIMachineLabel: "m1", rkev1.MachineUIDLabel: string(w.victim.GetUID())})
			obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(w.owner, clusterv1.GroupVersion.WithKind("Machine"))})
			return w.mallory.Create(t.Context(), obj)
		}, holds: says("owned", rkev1.ClusterReadyCondition, rkev1.WaitingForOwnerReason)},
		{name: "writes a state with another's machine for an owner", act: func(t *testing.T, w *tenants) error {
			err := w.mallory.Create(t.Context(), w.stateOfVictim(t, "late"))
			w.mine(t).machineOfCluster("late")
			return err
		}, holds: says("late", rkev1.CreateJobCondition, rkev1.NameTakenReason)},
		{name: "inherits the state of another's machine of the same name", act: func(t *testing.T, w *tenants) error {
			err := w.mallory.Create(t.Context(), w.stateOfVictim(t, "m1"))
			w.mine(t).machineOfCluster("m1")
			return err
		}, holds: says("m1", rkev1.CreateJobCondition, rkev1.NameTakenReason)},
		{name: "writes the tag of another's machine into a state, and has the machine removed", act: func(t *testing.T, w *tenants) error {
			obj := w.server(w.mine(t), "tagger")
			return errors.Join(merge(t, w, w.stateOfVictim(t, "tagger"), `{"metadata":{"annotations":{%q:%q,"drover.cattle.io/instance-name":"m1"}},"data":{"server.json":%q}}`,
				rkev1.TaggedUIDAnnotation, w.victim.GetUID(), "eyJpbnN0YW5jZUlEIjoiMSJ9"), w.mallory.Delete(t.Context(), obj))
		}, holds: says("tagger", rkev1.DeleteJobCondition, rkev1.NameTakenReason)},
		{name: "forges the record and the claim of a state, and has the machine removed", act: func(t *testing.T, w *tenants) error {
			obj := w.server(w.mine(t), "forger")
			forged := w.stateOfVictim(t, "forger")
			return errors.Join(merge(t, w, forged.DeepCopy(), `{"metadata":{"annotations":{"drover.cattle.io/claimed-attempt":"2000000000",%q:%q,"drover.cattle.io/instance-name":"m1"},"labels":{%q:%q}},"data":{"server.json":%q}}`,
				rkev1.TaggedUIDAnnotation, "nobodys", rkev1.MachineUIDLabel, w.victim.GetUID(), "eyJpbnN0YW5jZUlEIjoiMSJ9"),
				w.mallory.Status().Patch(t.Context(), obj.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"status":{"instanceName":"m1","jobName":"m1-create-1"}}`))),
				w.mallory.Delete(t.Context(), obj))
		}, holds: func(t *testing.T, w *tenants) error {
			_ = w.pods(t).collect(w.here, jobrunner.JobName("forger", state.Create, 2)) // looks, for nothing is known to be claimed
			return asks("forger", state.Remove)(t, w)
		}},
		{name: "writes another credential of last resort", act: func(t *testing.T, w *tenants) error {
			mine := w.mine(t)
			own := mine.secret("own", "accessToken", "his-own")
			err := w.mallory.Create(t.Context(), own)
			obj := w.server(mine, "payer", func(_ *clusterv1.Machine, obj *unstructured.Unstructured) {
				require.NoError(t, unstructured.SetNestedField(obj.Object, "own", "spec", "common", "cloudCredentialSecretName"))
			})
			last, encodeErr := json.Marshal(state.Credential{Name: w.there + ":cred", Env: map[string]string{"DIGITALOCEAN_ACCESS_TOKEN": "his-own"}})
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.here, Name: jobrunner.CredentialSecretName("payer")}}
			patch, patchErr := json.Marshal(map[string]any{"data": map[string][]byte{state.CredentialKey: last}})
			return errors.Join(err, encodeErr, patchErr, merge(t, w, secret, "%s", patch), w.mallory.Delete(t.Context(), own), w.mallory.Delete(t.Context(), obj))
		}, holds: asks("payer", state.Remove)},
		{name: "gives servers up without naming the machine", act: func(t *testing.T, w *tenants) error {
			obj := w.server(w.mine(t), "giver")
			err := merge(t, w, obj.DeepCopy(), `{"metadata":{"annotations":{%q:"true"}}}`, rkev1.AbandonAnnotation)
			_ = merge(t, w, obj.DeepCopy(), `{"metadata":{"annotations":{%q:"true"}}}`, rkev1.ForceRemoveAnnotation)
			err = errors.Join(err, w.mallory.Delete(t.Context(), obj))
			w.pods(t).play(w.here, "giver-rm-1", state.Result{Outcome: state.Failed, Class: rkev1.ClassUnauthorized, Message: "no", ServerMayExist: true})
			return err
		}, holds: func(t *testing.T, w *tenants) error {
			obj := machineOf(w.here, "giver", "DigitaloceanMachine", "")
			err := w.mine(t).machineReason(obj, rkev1.DeleteJobCondition, rkev1.ClassUnauthorized)
			require.NotEmpty(t, obj.GetFinalizers(), "the machine waits for its server to go")
			return err
		}},
		// The last, for nothing can be made in his namespace afterwards.
		{name: "has the attacker's driver run where the drivers are cached, by deleting the namespace", act: func(t *testing.T, w *tenants) error {
			w.mole = w.server(w.mine(t), "mole")
			kept := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.here, Name: jobrunner.StateSecretName("mole")}}
			mine, err := json.Marshal(state.DriverRef{Name: "mine", URL: "https://198.18.0.1/x", Digest: strings.Repeat("bb", 32)})
			return errors.Join(err, merge(t, w, kept, `{"metadata":{"annotations":{"drover.cattle.io/driver":%q}}}`, mine),
				w.admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.here}}), w.mallory.Delete(t.Context(), w.mole.DeepCopy()))
		}, holds: func(t *testing.T, w *tenants) error {
			return w.checkRequest(t, client.ObjectKey{Namespace: driver.CacheNamespace, Name: jobrunner.JobName("refuge-"+string(w.mole.GetUID()), state.Remove, 1)})
		}},
	}
}

// packed is content, some times over, in gzip.
func packed(t *testing.T, content []byte, times int) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	for range times {
		_, err := writer.Write(content)
		require.NoError(t, err)
	}
	require.NoError(t, writer.Close())
	return out.Bytes()
}

// stateOfVictim is a state Secret of the tenant's that says that it is of the other's machine.
func (w *tenants) stateOfVictim(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	owner := *metav1.NewControllerRef(w.victim, w.victim.GroupVersionKind())
	return &corev1.Secret{Type: rkev1.MachineStateSecretType, ObjectMeta: metav1.ObjectMeta{Namespace: w.here, Name: jobrunner.StateSecretName(name),
		Labels: map[string]string{rkev1.MachineUIDLabel: string(w.victim.GetUID())}, Finalizers: []string{rkev1.MachineFinalizer}, OwnerReferences: []metav1.OwnerReference{owner}}}
}
