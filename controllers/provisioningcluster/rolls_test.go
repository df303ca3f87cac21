package provisioningcluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/provisioningcluster"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/testkit"
)

// rollingDriver serves the kinds of a driver with these flags.
func rollingDriver(t *testing.T, flags ...crdgen.Flag) {
	t.Helper()
	fields, err := crdgen.FieldsOf("rolling", flags, crdgen.Rules{})
	require.NoError(t, err)
	config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: "rolling", Fields: fields})
	require.NoError(t, err)
	testkit.ApplyCRDs(t, config, template, machine)
}

var (
	olderFlags = []crdgen.Flag{
		{Name: "rolling-size", Type: crdgen.String, Default: "small"},
		{Name: "rolling-region", Type: crdgen.String},
		{Name: "rolling-ssh-port", Type: crdgen.Int, Default: int64(22)},
		{Name: "rolling-backups", Type: crdgen.Bool},
	}
	// newerFlags are of a newer release of the driver: another default, and options with defaults.
	newerFlags = []crdgen.Flag{
		{Name: "rolling-size", Type: crdgen.String, Default: "medium"},
		{Name: "rolling-region", Type: crdgen.String, Default: "here"},
		{Name: "rolling-ssh-port", Type: crdgen.Int, Default: int64(22)},
		{Name: "rolling-backups", Type: crdgen.Bool},
		{Name: "rolling-disk", Type: crdgen.Int, Default: int64(20)},
		{Name: "rolling-tags", Type: crdgen.StringSlice, Default: []string{"drover"}},
	}
)

// rollingWorld is a world whose pools use the driver rolling.
func rollingWorld(t *testing.T) *world {
	t.Helper()
	rollingDriver(t, olderFlags...)
	w := newWorld(t, func(c *provv1.Cluster) {
		for i := range c.Spec.RKEConfig.MachinePools {
			c.Spec.RKEConfig.MachinePools[i].MachineConfigRef = provv1.ConfigReference{Kind: "RollingConfig", Name: c.Spec.RKEConfig.MachinePools[i].Name}
		}
	})
	for _, name := range []string{"server", "workers"} {
		require.NoError(t, w.client.Create(t.Context(), w.rolling("RollingConfig", name)))
	}
	w.reconcile(t)
	w.reconcile(t)
	return w
}

func (w *world) rolling(kind, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	group := rkev1.MachineConfigGroupVersion
	if kind != "RollingConfig" {
		group = rkev1.MachineGroupVersion
	}
	obj.SetGroupVersionKind(group.WithKind(kind))
	obj.SetNamespace(w.cluster.Namespace)
	obj.SetName(name)
	return obj
}

// machinesOf is everything for which Cluster API makes, replaces or deletes a machine: the
// MachineDeployments with their number and machine specification, and the machine templates.
func (w *world) machinesOf(t *testing.T, kind string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, deployment := range w.deployments(t) {
		text, err := json.Marshal([]any{deployment.UID, deployment.Spec.Replicas, deployment.Spec.Selector, deployment.Spec.Template.Spec, deployment.Spec.Rollout})
		require.NoError(t, err)
		all["MachineDeployment/"+name] = string(text)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind(kind + "List"))
	require.NoError(t, w.client.List(t.Context(), list, client.InNamespace(w.cluster.Namespace)))
	for _, template := range list.Items {
		all[kind+"/"+template.GetName()] = string(template.GetUID())
	}
	return all
}

// editConfig changes the Config of the workers.
func (w *world) editConfig(t *testing.T, change func(config map[string]any)) {
	t.Helper()
	for _, name := range []string{"server", "workers"} {
		config := testkit.ExpectExists(t, w.client, w.rolling("RollingConfig", name))
		change(config.Object)
		require.NoError(t, w.client.Update(t.Context(), config))
	}
}

// editPools changes each pool of the Cluster.
func (w *world) editPools(t *testing.T, change func(pool *provv1.MachinePool)) {
	t.Helper()
	for i := range w.cluster.Spec.RKEConfig.MachinePools {
		change(&w.cluster.Spec.RKEConfig.MachinePools[i])
	}
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
}

// TestReconcile_nothingRolls: changes that take effect on existing machines, and changes around them,
// make no template and change no part of a MachineDeployment for which Cluster API replaces machines.
func TestReconcile_nothingRolls(t *testing.T) {
	w := rollingWorld(t)
	before := w.machinesOf(t, "RollingMachineTemplate")
	require.Len(t, before, 4)
	for _, edit := range []struct {
		name string
		do   func(t *testing.T)
		// annotation and value of the machines afterwards.
		annotation, value string
	}{
		{"labels", func(t *testing.T) {
			w.editPools(t, func(pool *provv1.MachinePool) { pool.Labels = map[string]string{"team": "shop"} })
		}, rkev1.NodeLabelsAnnotation, `{"team":"shop"}`},
		{"taints", func(t *testing.T) {
			w.editPools(t, func(pool *provv1.MachinePool) {
				pool.Taints = []corev1.Taint{{Key: "only", Value: "shop", Effect: corev1.TaintEffectNoSchedule}}
			})
		}, rkev1.NodeTaintsAnnotation, `[{"key":"only","value":"shop","effect":"NoSchedule"}]`},
		{"the credential of the Cluster", func(t *testing.T) {
			w.cluster.Spec.CloudCredentialSecretName = "rotated"
			require.NoError(t, w.client.Update(t.Context(), w.cluster))
		}, rkev1.CredentialAnnotation, "rotated"},
		{"the credential of the pools", func(t *testing.T) {
			w.editPools(t, func(pool *provv1.MachinePool) { pool.CloudCredentialSecretName = "others:cc" })
		}, rkev1.CredentialAnnotation, "others:cc"},
		{"labels of the MachineDeployment", func(t *testing.T) {
			w.editPools(t, func(pool *provv1.MachinePool) {
				pool.MachineDeploymentLabels = map[string]string{"cost": "center"}
				pool.MachineDeploymentAnnotations = map[string]string{"note": "text"}
			})
		}, "", ""},
		{"an argument of the distribution", func(t *testing.T) {
			w.cluster.Spec.RKEConfig.MachineGlobalConfig = rkev1.Config{"kubelet-arg": apiextensionsv1.JSON{Raw: []byte(`["max-pods=200"]`)}}
			require.NoError(t, w.client.Update(t.Context(), w.cluster))
		}, "", ""},
		{"defaults of a newer driver", func(t *testing.T) { w.upgradeDriver(t) }, "", ""},
		{"another manager", func(*testing.T) {
			w.r = provisioningcluster.New(provisioningcluster.Options{Client: w.client, Reader: w.client})
		}, "", ""},
		{"metadata of the Configs", func(t *testing.T) {
			w.editConfig(t, func(config map[string]any) {
				require.NoError(t, unstructured.SetNestedField(config, "text", "metadata", "annotations", "note"))
			})
		}, "", ""},
		{"defaults written out", func(t *testing.T) {
			w.editConfig(t, func(config map[string]any) {
				config["disk"], config["tags"], config["sshPort"], config["backups"] = int64(20), []any{"drover"}, int64(22), false
			})
		}, "", ""},
		{"an empty value", func(t *testing.T) {
			w.editConfig(t, func(config map[string]any) { config["region"] = "" })
		}, "", ""},
		{"defaults no longer written", func(t *testing.T) {
			w.editConfig(t, func(config map[string]any) {
				for _, option := range []string{"disk", "tags", "sshPort", "backups", "region"} {
					delete(config, option)
				}
			})
		}, "", ""},
		{"the Configs in another order", func(t *testing.T) { w.reapplyConfigs(t) }, "", ""},
		{"the pools in another order", func(t *testing.T) {
			pools := w.cluster.Spec.RKEConfig.MachinePools
			pools[0], pools[1] = pools[1], pools[0]
			require.NoError(t, w.client.Update(t.Context(), w.cluster))
		}, "", ""},
		{"the driver deactivated and activated", func(t *testing.T) { w.withoutKinds(t) }, "", ""},
	} {
		t.Run(edit.name, func(t *testing.T) {
			edit.do(t)
			for range 2 {
				w.reconcile(t)
				require.Equal(t, before, w.machinesOf(t, "RollingMachineTemplate"))
			}
			if edit.annotation != "" {
				for name, deployment := range w.deployments(t) {
					require.Equal(t, edit.value, deployment.Spec.Template.Annotations[edit.annotation], name)
				}
			}
			require.Zero(t, w.writes(t, func() { w.reconcile(t) }))
		})
	}
	// The test would see a replacement.
	w.editConfig(t, func(config map[string]any) { config["size"] = "large" })
	w.reconcile(t)
	require.NotEqual(t, before, w.machinesOf(t, "RollingMachineTemplate"))
}

// upgradeDriver serves the kinds of the newer driver, and waits until the API server fills its defaults in.
func (w *world) upgradeDriver(t *testing.T) {
	t.Helper()
	rollingDriver(t, newerFlags...)
	testkit.Eventually(t, 30*time.Second, func() error {
		config := w.rolling("RollingConfig", "workers")
		if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(config), config); err != nil {
			return err
		}
		if fmt.Sprintf("%v %v", config.Object["disk"], config.Object["region"]) != "20 here" {
			return errors.New("the defaults are the earlier ones")
		}
		return nil
	})
}

// reapplyConfigs writes the content of each Config as JSON with its fields in the reverse order.
func (w *world) reapplyConfigs(t *testing.T) {
	t.Helper()
	for _, name := range []string{"server", "workers"} {
		patch := `{"sshPort":22,"size":"small","disk":20,"apiVersion":"rke-machine-config.cattle.io/v1","kind":"RollingConfig"}`
		require.NoError(t, w.client.Patch(t.Context(), w.rolling("RollingConfig", name), client.RawPatch("application/merge-patch+json", []byte(patch))))
	}
}

// withoutKinds reconciles while the API server does not serve the driver's kinds.
func (w *world) withoutKinds(t *testing.T) {
	t.Helper()
	blind := interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, isCRD := obj.(*apiextensionsv1.CustomResourceDefinition); isCRD {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "customresourcedefinitions"}, key.Name)
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	before := w.machinesOf(t, "RollingMachineTemplate")
	w.r = provisioningcluster.New(provisioningcluster.Options{Client: blind, Reader: blind})
	for range 2 {
		w.reconcile(t)
		require.Equal(t, before, w.machinesOf(t, "RollingMachineTemplate"))
	}
	testkit.ExpectCondition(t, w.cluster, provv1.UpdatedCondition, metav1.ConditionFalse, provv1.ConfigMissingReason)
	w.r = provisioningcluster.New(provisioningcluster.Options{Client: w.client, Reader: w.client})
}
