package rkecontrolplane_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/rkecontrolplane"
	"github.com/drover-project/drover/testkit"
)

// An argument that cannot change is held if it passes the webhook, and its earlier value is accepted.
func TestBadInput_fixedArgument(t *testing.T) {
	w := newWorld(t)
	w.configure(`{"cluster-cidr":"10.42.0.0/16"}`)
	w.up()
	given := w.planOf("server")
	w.configure(`{"cluster-cidr":"10.50.0.0/16"}`)
	w.quiet()
	message := w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.ConfigInvalidReason)
	require.Contains(t, message, "server: cluster-cidr cannot change after the cluster was created: set it to 10.42.0.0/16 again")
	require.Equal(t, given, w.planOf("server"))
	w.configure(`{"cluster-cidr":["10.42.0.0/16"]}`)
	w.quiet()
	w.obeys("server")
	w.expect(rkev1.ReadyCondition, metav1.ConditionTrue, rkev1.ReadyReason)
}

// A cluster is not Ready while its server runs another version, and the condition names both.
func TestBadInput_anotherVersion(t *testing.T) {
	w := newWorld(t)
	w.up()
	w.runs("server", "v1.36.2+k3s1")
	w.quiet()
	const says = "its kubelet runs v1.36.2+k3s1, and spec.kubernetesVersion is v1.36.3+k3s1"
	require.Contains(t, w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.WaitingForMachinesReason), says)
	w.clock.SetTime(w.clock.Now().Add(6 * time.Minute))
	w.quiet()
	message := w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.KubernetesVersionDiffersReason)
	require.Contains(t, message, says)
	require.Contains(t, message, "spec.provisionGeneration")
	testkit.ExpectCondition(t, w.machineNamed("server"), rkev1.PlanAppliedCondition, metav1.ConditionTrue, rkev1.PlanAppliedReason)
	w.runs("server", "v1.36.3+k3s1")
	w.quiet()
	w.expect(rkev1.ReadyCondition, metav1.ConditionTrue, rkev1.ReadyReason)
}

// The token of the servers, which k3s and RKE2 cannot change, does not reach the server when it is
// edited; the token of the agents does.
func TestBadInput_serverTokenEdited(t *testing.T) {
	w := newWorld(t)
	w.up()
	given := w.planOf("server")
	state := w.secret("cp-rke-state")
	token := state.Data["serverToken"]
	state.Data["serverToken"] = []byte("another")
	require.NoError(t, w.Update(t.Context(), state))
	w.quiet()
	require.Equal(t, given, w.planOf("server"))
	message := w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.ServerTokenChangedReason)
	require.Contains(t, message, `serverToken in Secret "cp-rke-state"`)
	require.Contains(t, message, "kubectl patch secret cp-rke-state -n "+w.obj.Namespace)
	require.NotContains(t, message, string(token))
	state.Data["serverToken"] = token
	state.Data["agentToken"] = []byte("another")
	require.NoError(t, w.Update(t.Context(), state))
	w.quiet()
	require.NotEqual(t, given, w.planOf("server"))
	w.obeys("server")
	w.expect(rkev1.ReadyCondition, metav1.ConditionTrue, rkev1.ReadyReason)
}

// What is told of a cluster that cannot be made, and the way on: mended, it is made.
func TestBadInput(t *testing.T) {
	config := func(text string) func(*world) { return func(w *world) { w.configure(text) } }
	secret := func(name string, data map[string]string) func(*world) {
		return func(w *world) {
			require.NoError(w, w.Create(w.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: name}, StringData: data}))
		}
	}
	label := func(name, label, value string) func(*world) {
		return func(w *world) {
			machine := w.machineNamed(name)
			machine.Labels[label] = value
			require.NoError(w, w.Update(w.Context(), machine))
		}
	}
	annotate := func(name, value string) func(*world) {
		return func(w *world) {
			machine := w.machineNamed("server")
			machine.Annotations = map[string]string{name: value}
			require.NoError(w, w.Update(w.Context(), machine))
		}
	}
	files := func(w *world) {
		w.change(func(o *rkev1.RKEControlPlane) {
			o.Spec.MachineSelectorFiles = []rkev1.RKEProvisioningFiles{{FileSources: []rkev1.ProvisioningFileSource{{ConfigMap: rkev1.K8sObjectFileSource{Name: "app"}}}}}
		})
	}
	app := func(annotations map[string]string) func(*world) {
		return func(w *world) {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: "app", Annotations: annotations}}
			require.NoError(w, client.IgnoreNotFound(w.Delete(w.Context(), object.DeepCopy())))
			require.NoError(w, w.Create(w.Context(), object))
		}
	}
	bucket := func(w *world, namespace, name string) {
		require.NoError(w, w.Create(w.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			StringData: map[string]string{"s3credentialConfig-accessKey": "canary", "s3credentialConfig-secretKey": "canary"}}))
		w.change(func(o *rkev1.RKEControlPlane) {
			o.Spec.ETCD = &rkev1.ETCD{S3: &rkev1.ETCDSnapshotS3{Bucket: "b", CloudCredentialName: namespace + ":" + name}}
		})
	}
	// says is in the message; NS there stands for the namespace.
	for what, tt := range map[string]struct {
		change func(*world)
		reason string
		says   string
		mend   func(*world)
	}{
		"no etcd machine":          {label("server", rkev1.EtcdRoleLabel, "false"), rkev1.NoEtcdMachineReason, "etcd-role=true", label("server", rkev1.EtcdRoleLabel, "true")},
		"no control-plane machine": {label("server", rkev1.ControlPlaneRoleLabel, "no"), rkev1.NoControlPlaneMachineReason, "control-plane-role=true", label("server", rkev1.ControlPlaneRoleLabel, "true")},
		"an unknown version": {func(w *world) { w.change(func(o *rkev1.RKEControlPlane) { o.Spec.KubernetesVersion = "v1.99.0+k3s1" }) }, rkev1.KubernetesVersionUnknownReason,
			"1.99", func(w *world) { w.change(func(o *rkev1.RKEControlPlane) { o.Spec.KubernetesVersion = "v1.36.3+k3s1" }) }},
		"a value of another kind":  {config(`{"kubelet-arg":{"max-pods":60}}`), rkev1.ConfigInvalidReason, "kubelet-arg", config("null")},
		"a registry that is a URL": {config(`{"system-default-registry":"https://registry.example.com"}`), rkev1.ConfigInvalidReason, "system-default-registry must be a registry's host name", config("null")},
		"a registry's Secret that is missing": {func(w *world) {
			w.change(func(o *rkev1.RKEControlPlane) {
				o.Spec.Registries = &rkev1.Registry{Configs: map[string]rkev1.RegistryConfig{"registry.example.com": {AuthConfigSecretName: "pull"}}}
			})
		}, rkev1.RegistrySecretMissingReason, `"pull"`, func(w *world) {
			require.NoError(w, w.Create(w.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: "pull"}, Type: corev1.SecretTypeBasicAuth,
				StringData: map[string]string{"username": "u", "password": "p"}}))
		}},
		"a Machine's annotation that is no JSON": {annotate(rkev1.NodeLabelsAnnotation, "team=shop"), rkev1.MachineInvalidReason,
			"its annotation rke.cattle.io/labels cannot be read", annotate(rkev1.NodeLabelsAnnotation, `{"team":"shop"}`)},
		"a taint that is none": {annotate(rkev1.NodeTaintsAnnotation, `[{"key":"dedicated","effect":"Nonsense"}]`), rkev1.MachineInvalidReason,
			`server: its annotation rke.cattle.io/taints: taint "dedicated": its effect is "Nonsense"; it must be NoSchedule, PreferNoSchedule or NoExecute` +
				"\n* Correct the annotation: kubectl edit machines.cluster.x-k8s.io server -n NS", annotate(rkev1.NodeTaintsAnnotation, "[]")},
		"a label that is none, of a MachineDeployment": {func(w *world) {
			label("server", clusterv1.MachineDeploymentNameLabel, "pool")(w)
			annotate(rkev1.NodeLabelsAnnotation, `{"team":"not a value"}`)(w)
		}, rkev1.MachineInvalidReason, "\n* Correct the annotation in the template of its MachineDeployment. It is copied to existing Machines, and no machine is replaced: " +
			"kubectl edit machinedeployments.cluster.x-k8s.io pool -n NS", annotate(rkev1.NodeLabelsAnnotation, "{}")},
		"a file's ConfigMap that is missing": {files, rkev1.FileSourceMissingReason, "\n* List the objects of this kind: kubectl get configmaps -n NS\n* Change it: kubectl edit rkecontrolplanes.rke.cattle.io cp -n NS",
			app(map[string]string{rkev1.AuthorizedForClustersAnnotation: "c1"})},
		"a file's ConfigMap that is not shared": {func(w *world) {
			app(nil)(w)
			files(w)
		}, rkev1.FileSourceNotAuthorizedReason, "kubectl annotate configmap app -n NS rke.cattle.io/object-authorized-for-clusters=c1\n",
			app(map[string]string{rkev1.AuthorizedForClustersAnnotation: "c1"})},
		"a bucket's credential of another namespace that is not shared": {func(w *world) {
			bucket(w, testkit.Namespace(w.T), "backups")
		}, rkev1.SnapshotCredentialMissingReason, "list this namespace, NS, in its annotation drover.cattle.io/allowed-namespaces", func(w *world) {
			there := w.foreign()
			there.Annotations = map[string]string{rkev1.AllowedNamespacesAnnotation: w.obj.Namespace}
			require.NoError(w, w.Update(w.Context(), there))
		}},
		"a bucket's credential of a name that none can have": {func(w *world) {
			w.change(func(o *rkev1.RKEControlPlane) {
				o.Spec.ETCD = &rkev1.ETCD{S3: &rkev1.ETCDSnapshotS3{Bucket: "backups", CloudCredentialName: "another/backups"}}
			})
		}, rkev1.SnapshotCredentialMissingReason, `spec.etcd.s3.cloudCredentialName: Secret "another/backups" does not exist in the control plane's namespace`, func(w *world) {
			w.change(func(o *rkev1.RKEControlPlane) { o.Spec.ETCD = nil })
		}},
		"a bucket's credential of Rancher's in a namespace that is not trusted": {func(w *world) {
			bucket(w, testkit.Namespace(w.T), "cc-backups")
		}, rkev1.SnapshotCredentialMissingReason, "does not exist or is not shared", func(w *world) {
			w.r = rkecontrolplane.New(rkecontrolplane.Options{Client: w.WithWatch, Reader: w.WithWatch, Clusters: w.reached,
				TrustedCredentialNamespaces: []string{w.foreign().Namespace}})
		}},
		"a cloud's configuration in a Secret that is not shared": {func(w *world) {
			secret("cloud", map[string]string{"credential": "canary"})(w)
			w.configure(`{"cloud-provider-config":"secret://` + w.obj.Namespace + `:cloud"}`)
		}, rkev1.FileSourceNotAuthorizedReason, "kubectl annotate secret cloud -n NS rke.cattle.io/object-authorized-for-clusters=c1\n", func(w *world) {
			there := w.secret("cloud")
			there.Annotations = map[string]string{rkev1.AuthorizedForClustersAnnotation: "c1"}
			require.NoError(w, w.Update(w.Context(), there))
		}},
		"the user's own authority that is none": {secret("c1-etcd", map[string]string{"tls.crt": "mine", "tls.key": "canary"}), rkev1.AuthorityInvalidReason,
			"the Secret c1-etcd cannot be used: its tls.key is not a readable private key", func(w *world) {
				require.NoError(w, w.Delete(w.Context(), w.secret("c1-etcd")))
			}},
		"a catalogue of releases that cannot be read": {func(w *world) {
			name := "releases-" + w.obj.Namespace
			require.NoError(w, w.Create(w.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
				Data: map[string]string{rkecontrolplane.ReleasesKey: "distributions: {k9s: {}}"}}))
			w.r = rkecontrolplane.New(rkecontrolplane.Options{Client: w.WithWatch, Reader: w.WithWatch, Clusters: w.reached, Releases: types.NamespacedName{Namespace: "default", Name: name}})
		}, rkev1.ReleasesInvalidReason, "k9s", func(w *world) {
			require.NoError(w, w.Delete(w.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "releases-" + w.obj.Namespace}}))
		}},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.provisioned("server", 1, "etcd", "control-plane", "worker")
			tt.change(w)
			w.reconcile()
			w.reconcile()
			message := w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, tt.reason)
			says := strings.ReplaceAll(tt.says, "NS", w.obj.Namespace)
			require.Contains(t, message, says)
			require.Contains(t, message, "\n* ", "and what to do about it")
			require.NotContains(t, message, "canary")
			require.Nil(t, w.planOf("server"))
			tt.mend(w)
			w.reconcile()
			require.NotNil(t, w.planOf("server"))
		})
	}
}

// More than the manager reads for one cluster is refused, by what the message names; what of an object is not used does not count.
func TestBadInput_objectsTooLarge(t *testing.T) {
	w := newWorld(t)
	w.provisioned("server", 1, "etcd", "control-plane", "worker")
	var entry rkev1.RKEProvisioningFiles
	for i := range 5 {
		name := fmt.Sprintf("files-%d", i)
		require.NoError(t, w.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: name,
			Annotations: map[string]string{rkev1.AuthorizedForClustersAnnotation: "c1"}}, Data: map[string][]byte{"large": make([]byte, 900<<10), "small": []byte("x")}}))
		entry.FileSources = append(entry.FileSources, rkev1.ProvisioningFileSource{Secret: rkev1.K8sObjectFileSource{Name: name, Items: []rkev1.KeyToPath{{Key: "large", Path: "/etc/" + name}}}})
	}
	entry.MachineLabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"none": "none"}}
	w.change(func(o *rkev1.RKEControlPlane) { o.Spec.MachineSelectorFiles = []rkev1.RKEProvisioningFiles{entry} })
	w.quiet()
	message := w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.ReferencesExceededReason)
	require.Contains(t, message, `4194304 bytes with the Secret "files-4"`)
	require.Nil(t, w.planOf("server"))
	w.change(func(o *rkev1.RKEControlPlane) {
		for i := range entry.FileSources {
			o.Spec.MachineSelectorFiles[0].FileSources[i].Secret.Items[0].Key = "small"
		}
		o.Spec.MachineSelectorFiles[0].MachineLabelSelector = nil
	})
	w.quiet()
	require.Equal(t, "x", file(t, w.planOf("server"), "/etc/files-4"))
}

// An address of the Cluster's own that no kubeconfig can name is told, and nothing is written again and again for it.
func TestBadInput_endpoint(t *testing.T) {
	for _, host := range []string{"api.example.org:6443", "https://api.example.org", "[fd00::1]"} {
		t.Run(host, func(t *testing.T) {
			w := newWorld(t)
			w.cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: host, Port: 6443}
			require.NoError(t, w.Update(t.Context(), w.cluster))
			w.provisioned("server", 1, "etcd", "control-plane", "worker")
			w.quiet()
			w.obeys("server")
			message := w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.EndpointInvalidReason)
			require.Contains(t, message, "the host of controlPlaneEndpoint must be a DNS name or an IP address without scheme and port")
			require.Contains(t, message, "\n* ", "and what to do about it")
			require.True(t, w.isGone("c1-kubeconfig"))

			infrastructure := &rkev1.RKECluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: "c1"}}
			infrastructure.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "api.example.org", Port: 6443}
			require.NoError(t, w.Create(t.Context(), infrastructure))
			w.quiet()
			w.obeys("server") // it is among the names of its certificate
			require.Equal(t, "https://api.example.org:6443", w.host())
		})
	}
}

func TestBadInput_twoControlPlanesForOneCluster(t *testing.T) {
	for what, owned := range map[string]bool{"by its specification": false, "by its owner": true} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			first := w.obj
			w.obj = &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: first.Namespace, Name: "second"}}
			if w.obj.Spec.ClusterName = "c1"; owned {
				w.obj.OwnerReferences = first.OwnerReferences
			}
			require.NoError(t, w.Create(t.Context(), w.obj))
			w.quiet()
			require.Contains(t, w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.ClusterHasAnotherReason), `the Cluster c1 names the control plane RKEControlPlane "cp", not this one`)
			require.Contains(t, w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.ClusterHasAnotherReason), "name it in spec.controlPlaneRef again: kubectl edit clusters.cluster.x-k8s.io c1 -n")
			require.True(t, w.isGone("second-rke-state"))
			require.True(t, w.isGone("c1-ca"))
			w.obj = first
			w.quiet()
			w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.WaitingForMachinesReason)
		})
	}
}

// The Cluster that came first is not harmed by one that names its control plane.
func TestBadInput_twoClustersForOneControlPlane(t *testing.T) {
	w := newWorld(t)
	w.up()
	second := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: "c2"}, Spec: w.cluster.Spec}
	require.NoError(t, w.Create(t.Context(), second))
	w.quiet()
	w.expect(rkev1.ReadyCondition, metav1.ConditionTrue, rkev1.ReadyReason)
	require.Contains(t, w.expect(rkev1.WarningsCondition, metav1.ConditionTrue, rkev1.WarningsReason), "the Cluster c2 also names this control plane, which belongs to c1: give that Cluster its own control plane\n* "+
		"Give that Cluster its own control plane: kubectl edit clusters.cluster.x-k8s.io c2 -n "+w.obj.Namespace)
	require.NoError(t, w.Delete(t.Context(), second))
	w.quiet()
	testkit.ExpectNoCondition(t, w.obj, rkev1.WarningsCondition)
}

// A version in a MachineDeployment is told, also the one that its servers run, and nobody is told to have the only server replaced.
func TestBadInput_machineDeploymentWithAVersion(t *testing.T) {
	for what, runs := range map[string]string{"another than runs": "v1.36.3+k3s1", "the one that runs": "v1.36.3+k3s1"} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.up()
			machine := w.machineNamed("server")
			machine.Spec.Version = "v1.36.3+k3s1"
			machine.Labels[clusterv1.MachineDeploymentNameLabel] = "pool"
			require.NoError(t, w.Update(t.Context(), machine))
			w.runs("server", runs)
			w.quiet()
			message := w.expect(rkev1.WarningsCondition, metav1.ConditionTrue, rkev1.WarningsReason)
			require.Contains(t, message, "a version is set for the MachineDeployment pool")
			require.Contains(t, message, "\n* Keep the version")
			require.NotContains(t, message, "rkecontrolplanes", "its specification is all right")
			w.configure(`{"no-such-argument":true}`)
			w.quiet()
			require.Contains(t, w.expect(rkev1.WarningsCondition, metav1.ConditionTrue, rkev1.WarningsReason), "\n* Change it: kubectl edit rkecontrolplanes.rke.cattle.io cp -n")
		})
	}
}

func TestBadInput_noOwner(t *testing.T) {
	w := newWorld(t)
	w.change(func(o *rkev1.RKEControlPlane) { o.OwnerReferences = nil })
	w.quiet()
	require.Contains(t, w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.WaitingForOwnerReason), "Name it in spec.controlPlaneRef of a Cluster")
	w.change(func(o *rkev1.RKEControlPlane) { o.Spec.ClusterName = "c1" })
	w.reconcile()
	require.Contains(t, w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.WaitingForOwnerReason), "the Cluster c1 names this object")
}

// All etcd is lost: nothing is made in its place, whatever was forgotten by a move, and the dead end has instructions.
func TestBadInput_allEtcdLost(t *testing.T) {
	w := newWorld(t)
	w.up()
	machine := w.machineNamed("server")
	require.NoError(t, w.Delete(t.Context(), machine))
	require.NoError(t, w.Delete(t.Context(), w.secret("server-machine-plan")))
	w.obj.Status = rkev1.RKEControlPlaneStatus{}
	require.NoError(t, w.Status().Update(t.Context(), w.obj))
	w.provisioned("another", 9, "etcd", "control-plane", "worker")
	w.quiet()
	message := w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.EtcdLostReason)
	require.Contains(t, message, "create the cluster again and restore the snapshot there")
	require.NotContains(t, message, "cp-rke-state")
	require.Nil(t, w.planOf("another"))

	// The Cluster and its control plane are younger than what says that they were made, and nothing answers.
	w.reached.answer[client.ObjectKeyFromObject(w.cluster)] = false
	w.change(func(o *rkev1.RKEControlPlane) { delete(o.Annotations, rkev1.BootstrappedAnnotation) })
	later := metav1.NewTime(w.secret("cp-rke-state").CreationTimestamp.Add(time.Hour))
	w.r = w.reconciler(interceptor.NewClient(w.WithWatch, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		err := c.Get(ctx, key, obj, opts...)
		if cluster, is := obj.(*clusterv1.Cluster); is {
			cluster.CreationTimestamp = later
		}
		return err
	}}))
	w.reconcile()
	require.Contains(t, w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.EtcdLostReason), "Drover then creates this cluster: kubectl delete secret cp-rke-state -n "+w.obj.Namespace)
	require.NoError(t, w.Delete(t.Context(), w.secret("cp-rke-state")))
	w.reconcile()
	require.NotNil(t, w.planOf("another"))
}

// A server with the data that came from a backup with the owners of then is there, though its Machine is being deleted: nobody is told that its data is lost.
func TestBadInput_etcdRestored(t *testing.T) {
	w := newWorld(t)
	w.up()
	machine := w.machineNamed("server")
	machine.Finalizers = []string{clusterv1.MachineFinalizer}
	require.NoError(t, w.Update(t.Context(), machine))
	machine.Status.Conditions = append(machine.Status.Conditions, metav1.Condition{Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionFalse,
		Reason: rkev1.OwnerUnknownReason, Message: "this machine came from a backup", LastTransitionTime: metav1.Now()})
	require.NoError(t, w.Status().Update(t.Context(), machine))
	require.NoError(t, w.Delete(t.Context(), machine))
	w.provisioned("another", 9, "etcd", "control-plane", "worker")
	w.quiet()
	require.Contains(t, w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.OwnerUnknownReason), "server, whose server holds the cluster's data, was restored from a backup")
	require.Nil(t, w.planOf("another"))
}

// A server that never made anything may be replaced.
func TestBadInput_firstServerNeverApplied(t *testing.T) {
	w := newWorld(t)
	machine := w.machine("server", "etcd", "control-plane", "worker")
	w.server("server", 1)
	w.quiet()
	require.NotNil(t, w.planOf("server"))
	require.NoError(t, w.Delete(t.Context(), machine))
	require.NoError(t, w.Delete(t.Context(), w.secret("server-machine-plan")))
	w.provisioned("another", 9, "etcd", "control-plane", "worker")
	w.quiet()
	require.NotNil(t, w.planOf("another"))
}

// What the cluster was made with is not made anew, for its servers have the old.
func TestBadInput_clusterSecretGone(t *testing.T) {
	for _, name := range []string{"c1-ca", "c1-sa", "cp-rke-state"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.up()
			lost := w.secret(name)
			require.NoError(t, w.Delete(t.Context(), lost))
			w.quiet()
			require.Contains(t, w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.ClusterSecretMissingReason), "the Secret "+name+", which the cluster was created with, does not exist")
			require.True(t, w.isGone(name))
			lost.ResourceVersion, lost.UID, lost.OwnerReferences = "", "", nil
			require.NoError(t, w.Create(t.Context(), lost))
			w.quiet()
			w.expect(rkev1.ReadyCondition, metav1.ConditionTrue, rkev1.ReadyReason)
			require.True(t, metav1.IsControlledBy(w.secret(name), w.obj), "it ends with its cluster, and does not go into the next one of that name")
			require.NotContains(t, w.secret(name).Labels, rkev1.MoveLabel)
		})
	}
}

// A cluster that is created with the Secrets of a lost one can read its snapshots, as docs/clusters.md#on-a-new-server describes.
func TestSecrets_ofALostCluster(t *testing.T) {
	lost, w := newWorld(t), newWorld(t)
	lost.up()
	lost.quiet()
	require.NotEmpty(t, lost.secret("cp-rke-state").Data["bootstrapped"])
	for _, name := range []string{"cp-rke-state", "c1-ca", "c1-cca", "c1-sa", "c1-proxy", "c1-etcd", "c1-etcd-peer"} {
		one := lost.secret(name)
		one.Namespace, one.ResourceVersion, one.UID, one.OwnerReferences = w.obj.Namespace, "", "", nil
		delete(one.Data, "bootstrapped")
		require.NoError(t, w.Create(t.Context(), one))
	}
	w.up()
	w.quiet()
	w.expect(rkev1.ReadyCondition, metav1.ConditionTrue, rkev1.ReadyReason)
	require.Contains(t, file(t, w.planOf("server"), "50-rancher.yaml"), string(lost.secret("cp-rke-state").Data["serverToken"]))
	require.Equal(t, file(t, lost.planOf("server"), "/server/tls/server-ca.crt"), file(t, w.planOf("server"), "/server/tls/server-ca.crt"))
	require.True(t, metav1.IsControlledBy(w.secret("cp-rke-state"), w.obj), "the Secrets are deleted with the new cluster")
}

// A backup may bring the Secrets back last: none is made in their place.
func TestBadInput_secretsComeBackLast(t *testing.T) {
	w := newWorld(t)
	w.up()
	w.quiet()
	var kept []*corev1.Secret
	for _, name := range []string{"cp-rke-state", "c1-ca", "c1-cca", "c1-sa", "c1-proxy", "c1-etcd", "c1-etcd-peer"} {
		one := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: name}}
		testkit.ExpectExists(t, w.WithWatch, one)
		require.NoError(t, w.Delete(t.Context(), one))
		one.ResourceVersion, one.UID, one.OwnerReferences = "", "", nil
		kept = append(kept, one)
	}
	w.obj.Status = rkev1.RKEControlPlaneStatus{} // no backup has it
	require.NoError(t, w.Status().Update(t.Context(), w.obj))
	w.quiet()
	require.Contains(t, w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.ClusterSecretMissingReason), "the Secret cp-rke-state, which the cluster was created with, does not exist")

	// Also where the backup is older than the annotation: the server has no plan Secret, without which none is made.
	of := w.secret("server-machine-plan")
	require.NoError(t, w.Delete(t.Context(), of))
	w.change(func(o *rkev1.RKEControlPlane) { delete(o.Annotations, rkev1.BootstrappedAnnotation) })
	w.quiet()
	w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.ClusterSecretMissingReason)
	of.ResourceVersion, of.UID = "", ""
	kept = append(kept, of)
	for _, one := range kept {
		require.True(t, w.isGone(one.Name), one.Name)
		require.NoError(t, w.Create(t.Context(), one))
	}
	w.quiet()
	w.expect(rkev1.ReadyCondition, metav1.ConditionTrue, rkev1.ReadyReason)

	// A copy of the manifest makes a cluster of its own.
	w.change(func(o *rkev1.RKEControlPlane) { o.Annotations[rkev1.BootstrappedAnnotation] = "the-original" })
	w.quiet()
	require.Equal(t, "cp", w.obj.Annotations[rkev1.BootstrappedAnnotation])
}

// A fault of the cluster as a whole comes when all was well: its machines are told, once, and what is known of them stays so.
func TestBadInput_whenAllWasWell(t *testing.T) {
	version := func(version string) func(*world) {
		return func(w *world) { w.change(func(o *rkev1.RKEControlPlane) { o.Spec.KubernetesVersion = version }) }
	}
	var lost *corev1.Secret
	for what, tt := range map[string]struct {
		change       func(*world)
		reason, says string
		// upToDate are the servers of the control plane that are known to be as the specification says.
		upToDate int32
		mend     func(*world)
	}{
		"an unknown version": {version("v1.99.0+k3s1"), rkev1.KubernetesVersionUnknownReason, "1.99", 0, version("v1.36.3+k3s1")},
		"a catalogue that cannot be read": {func(w *world) {
			w.r.Releases.Name = "releases-" + w.obj.Namespace
			require.NoError(w, w.Create(w.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.r.Releases.Namespace, Name: w.r.Releases.Name},
				Data: map[string]string{rkecontrolplane.ReleasesKey: "distributions: {k9s: {}}"}}))
		}, rkev1.ReleasesInvalidReason, "k9s", 1, func(w *world) { w.r.Releases.Name = "no-such-catalogue" }},
		"a Secret that is gone": {func(w *world) {
			lost = w.secret("c1-sa")
			require.NoError(w, w.Delete(w.Context(), lost))
		}, rkev1.ClusterSecretMissingReason, "the Secret c1-sa", 1, func(w *world) {
			lost.ResourceVersion, lost.UID = "", ""
			require.NoError(w, w.Create(w.Context(), lost))
		}},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.up()
			w.provisioned("worker", 2, "worker")
			w.quiet()
			w.obeys("worker")
			w.runs("server", "v1.36.3+k3s1", clusterv1.MachineReadyCondition, clusterv1.MachineAvailableCondition)
			w.runs("worker", "v1.36.3+k3s1", clusterv1.MachineReadyCondition)
			w.quiet()
			w.expectCounts(1, 1, 1, 1, clusterv1.StatusVersion{Version: "v1.36.3+k3s1", Replicas: 1})

			tt.change(w)
			w.machine("new", "worker")
			w.writes = nil
			w.quiet()
			require.Len(t, w.writes, 4, "three machines and the control plane, once each: %v", w.writes)
			for _, name := range []string{"server", "worker", "new"} {
				told := testkit.ExpectCondition(t, w.machineNamed(name), rkev1.ReconciledCondition, metav1.ConditionUnknown, tt.reason).Message
				require.Contains(t, told, "the control plane cp: ")
				require.Contains(t, told, tt.says)
				require.Contains(t, told, "\n* ", "and what to do about it")
			}
			w.runs("server", "v1.36.3+k3s1", clusterv1.MachineReadyCondition)
			w.quiet()
			w.expectCounts(1, 1, 0, tt.upToDate, clusterv1.StatusVersion{Version: "v1.36.3+k3s1", Replicas: 1})

			w.agent("server", map[string]string{plan.KeyProbeStatuses: `{"kubelet":{"healthy":false}}`})
			w.quiet()
			w.expectCounts(1, 1, 0, 0, clusterv1.StatusVersion{Version: "v1.36.3+k3s1", Replicas: 1})
			w.isWell("server")
			tt.mend(w)
			w.quiet()
			w.expectMachine("server", rkev1.UpToDateReason)
			w.expectMachine("worker", rkev1.UpToDateReason)
			w.expectMachine("new", rkev1.WaitingForServerReason)
			w.expectCounts(1, 1, 0, 1, clusterv1.StatusVersion{Version: "v1.36.3+k3s1", Replicas: 1})
		})
	}
}

// Tokens that somebody took out of their Secret are not made anew either.
func TestBadInput_tokensGone(t *testing.T) {
	w := newWorld(t)
	w.quiet()
	state := w.secret("cp-rke-state")
	state.Data = nil
	require.NoError(t, w.Update(t.Context(), state))
	w.quiet()
	require.Contains(t, w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.ClusterSecretMissingReason), "has no serverToken")
}

// A user's own authority is used, and left alone but for the label by which a move takes it along.
func TestAuthorities_ofTheUser(t *testing.T) {
	first := newWorld(t)
	first.quiet()
	w := newWorld(t)
	own := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: "c1-ca"}, Data: first.secret("c1-ca").Data}
	require.NoError(t, w.Create(t.Context(), own))
	w.up()
	require.Equal(t, own.Data, w.secret("c1-ca").Data)
	require.Equal(t, map[string]string{rkev1.MoveLabel: ""}, w.secret("c1-ca").Labels)
	require.Equal(t, string(own.Data["tls.crt"]), file(t, w.planOf("server"), "/server/tls/server-ca.crt"))
	require.NotEqual(t, first.secret("c1-cca").Data, w.secret("c1-cca").Data)
}
