package charts_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
)

// find returns the one object of a type and name, read strictly.
func find[T any](t *testing.T, objs []client.Object, name string) *T {
	t.Helper()
	var found []*T
	for _, obj := range objs {
		if typed := new(T); strings.HasSuffix(reflect.TypeFor[T]().String(), "."+obj.GetObjectKind().GroupVersionKind().Kind) && obj.GetName() == name {
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.(*unstructured.Unstructured).Object, typed, true))
			found = append(found, typed)
		}
	}
	require.Len(t, found, 1, name)
	return found[0]
}

// The flags that are ours come first, so that those of the user win; nothing of them is read by a shell.
func TestManagerIsStartedAsAsked(t *testing.T) {
	for name, s := range settings() {
		t.Run(name, func(t *testing.T) {
			container := find[appsv1.Deployment](t, objects(t, s), charts.Name).Spec.Template.Spec.Containers[0]
			require.Equal(t, []string{"/manager"}, container.Command)
			require.Equal(t, []string{"--leader-elect", "--webhook-port=9443", "--metrics-bind-address=:8080", "--health-probe-bind-address=:8081"}, container.Args[:4])
			require.Equal(t, append([]string{}, s.Args...), container.Args[len(container.Args)-len(s.Args):])
			require.Equal(t, s.Image, container.Image)
			require.EqualValues(t, s.ImagePullPolicy, container.ImagePullPolicy)
			var env []string
			for _, variable := range container.Env {
				require.Empty(t, variable.Value)
				env = append(env, variable.Name+"="+variable.ValueFrom.FieldRef.FieldPath)
			}
			require.Equal(t, []string{"POD_NAMESPACE=metadata.namespace", "POD_NAME=metadata.name", "POD_UID=metadata.uid"}, env)
		})
	}
	container := find[appsv1.Deployment](t, objects(t, settings()["most"]), charts.Name).Spec.Template.Spec.Containers[0]
	require.Contains(t, container.Args, `--job-no-proxy=a,b "c" ${D}`)
}

// The CA certificates of Jobs are where the flag says that they are.
func TestCertificatesOfJobsAreWhereTheManagerLooks(t *testing.T) {
	objs := objects(t, settings()["most"])
	pod := find[appsv1.Deployment](t, objs, charts.Name).Spec.Template.Spec
	configMap := find[corev1.ConfigMap](t, objs, "drover-job-ca")
	mount := pod.Containers[0].VolumeMounts[0]
	require.True(t, mount.ReadOnly)
	require.Equal(t, pod.Volumes[0].Name, mount.Name)
	require.Equal(t, configMap.Name, pod.Volumes[0].ConfigMap.Name)
	require.Equal(t, map[string]string{"ca.pem": testCA}, configMap.Data)
	require.Contains(t, pod.Containers[0].Args, "--job-ca-file="+mount.MountPath+"/ca.pem")

	least := find[appsv1.Deployment](t, objects(t, settings()["least"]), charts.Name).Spec.Template.Spec
	require.Empty(t, least.Volumes)
	require.Empty(t, least.Containers[0].VolumeMounts)
}

// The pod can do little even when it is taken over.
func TestManagerRunsRestricted(t *testing.T) {
	for name, s := range settings() {
		pod := find[appsv1.Deployment](t, objects(t, s), charts.Name).Spec.Template.Spec
		require.True(t, *pod.SecurityContext.RunAsNonRoot, name)
		require.NotZero(t, *pod.SecurityContext.RunAsUser, name)
		require.False(t, pod.HostNetwork || pod.HostPID || pod.HostIPC, name)
		container := pod.Containers[0]
		require.True(t, *container.SecurityContext.ReadOnlyRootFilesystem, name)
		require.False(t, *container.SecurityContext.AllowPrivilegeEscalation, name)
		require.Equal(t, []corev1.Capability{"ALL"}, container.SecurityContext.Capabilities.Drop, name)
		require.False(t, container.Resources.Limits.Memory().IsZero(), "%s: a leak must not take the node along", name)
		require.True(t, container.Resources.Limits.Cpu().IsZero(), "%s: a limit of CPU would throttle what is urgent", name)
		require.GreaterOrEqual(t, *pod.TerminationGracePeriodSeconds, int64(30), name)
		for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe} {
			port := probe.HTTPGet.Port.StrVal
			require.True(t, slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == port }), "%s: no port %s", name, port)
			require.GreaterOrEqual(t, probe.TimeoutSeconds, int32(10), "%s: a manager that is busy for some seconds is not broken", name)
		}
	}
}

// Kinds of ours and of every driver share categories, and no plural, singular, short name or kind is there twice.
func TestNamesOfAllKindsAreDifferent(t *testing.T) {
	crds, err := charts.CRDs()
	require.NoError(t, err)
	for _, nd := range driver.Predefined() {
		config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: nd.DriverName()})
		require.NoError(t, err)
		crds = append(crds, config, template, machine)
	}
	seen := map[string]string{}
	for _, crd := range crds {
		names := crd.Spec.Names
		require.Contains(t, names.Categories, "drover", crd.Name)
		words := slices.Concat([]string{names.Plural, names.Singular, strings.ToLower(names.Kind)}, names.ShortNames)
		for _, word := range slices.Compact(slices.Sorted(slices.Values(words))) {
			if names.Kind == "Cluster" { // Rancher has two of them: users name the group
				continue
			}
			require.Empty(t, seen[word], "%s is a name of %s and of %s", word, seen[word], crd.Name)
			seen[word] = crd.Name
		}
		require.NotContains(t, []string{"po", "svc", "cm", "pvc", "pv", "ns", "no", "ev", "sa", "ds", "rs", "sts", "hpa", "cj", "pdb", "ing", "netpol", "pc", "sc", "crd", "csr"},
			names.ShortNames)
	}
}

// Each kind has one version that is stored and served, needs no conversion, and tells about each of its fields.
func TestKindsAreDocumentedToTheLastField(t *testing.T) {
	crds, err := charts.CRDs()
	require.NoError(t, err)
	for _, crd := range crds {
		require.Len(t, crd.Spec.Versions, 1, crd.Name)
		version := crd.Spec.Versions[0]
		require.True(t, version.Served && version.Storage, crd.Name)
		require.Nil(t, crd.Spec.Conversion, crd.Name)
		require.NotEmpty(t, version.Schema.OpenAPIV3Schema.Description, crd.Name)
		requireDescribed(t, crd.Name+".spec", version.Schema.OpenAPIV3Schema.Properties["spec"])
	}
}

func requireDescribed(t *testing.T, at string, schema apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	for name, property := range schema.Properties {
		// What the template of a cluster holds is the cluster's own.
		if !strings.HasSuffix(at, ".template") && name != "template" {
			require.NotEmpty(t, property.Description, "%s.%s", at, name)
		}
		requireDescribed(t, at+"."+name, property)
	}
}
