package guard

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"sync"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func fakeClient(t *testing.T, objs ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clusterv1.AddToScheme(scheme))
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objs...).Build()
}

func asked(t *testing.T, kind string, is, was runtime.Object) admission.Request {
	t.Helper()
	raw := func(obj runtime.Object) runtime.RawExtension {
		content, err := json.Marshal(obj)
		require.NoError(t, err)
		return runtime.RawExtension{Raw: content}
	}
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "tenant", Kind: metav1.GroupVersionKind{Kind: kind}, Object: raw(is)}}
	if was != nil {
		request.OldObject = raw(was)
	}
	return request
}

// A Cluster that names another's control plane is refused, and not where it is moved, restored, or has named it before.
func TestControlPlane_ofAnotherCluster(t *testing.T) {
	named := func(cluster, kind string) *clusterv1.Cluster {
		group := "rke.cattle.io"
		if kind != "RKEControlPlane" {
			group = "controlplane.cluster.x-k8s.io"
		}
		return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: cluster}, Spec: clusterv1.ClusterSpec{
			ControlPlaneRef: clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: kind, Name: "cp"}}}
	}
	elsewhere, paused, unpaused := named("c1", "RKEControlPlane"), named("c2", "RKEControlPlane"), named("c2", "RKEControlPlane")
	elsewhere.Namespace = "other"
	paused.Spec.Paused, unpaused.Spec.Paused = new(true), new(false)
	for what, tt := range map[string]struct {
		there, is, was *clusterv1.Cluster
		allowed        bool
	}{
		"the first":                  {named("c2", "RKEControlPlane"), named("c2", "RKEControlPlane"), nil, true},
		"the second":                 {named("c1", "RKEControlPlane"), named("c2", "RKEControlPlane"), nil, false},
		"one that takes it later":    {named("c1", "RKEControlPlane"), named("c2", "RKEControlPlane"), named("c2", "None"), false},
		"one that has it already":    {named("c1", "RKEControlPlane"), unpaused, paused, true},
		"one that is paused":         {named("c1", "RKEControlPlane"), paused, nil, true},
		"one of another namespace":   {elsewhere, named("c2", "RKEControlPlane"), nil, true},
		"another provider's":         {named("c1", "KubeadmControlPlane"), named("c2", "KubeadmControlPlane"), nil, true},
		"another's of the same name": {named("c1", "KubeadmControlPlane"), named("c2", "RKEControlPlane"), nil, true},
	} {
		t.Run(what, func(t *testing.T) {
			g := &Webhook{Client: fakeClient(t, tt.there)}
			var was runtime.Object
			if tt.was != nil {
				was = tt.was
			}
			response := g.Handle(t.Context(), asked(t, "Cluster", tt.is, was))
			require.Equal(t, tt.allowed, response.Allowed)
			if !tt.allowed {
				require.Equal(t, "spec.controlPlaneRef: the RKEControlPlane cp belongs to Cluster c1: give this Cluster its own RKEControlPlane", response.Result.Message)
			}
		})
	}
}

// A Cluster that names a kind of ours in the wrong place is refused, and one that is there already can be labelled, changed and let go.
func TestParts_ofWrongKinds(t *testing.T) {
	naming := func(infrastructure, controlPlane string) *clusterv1.Cluster {
		ref := func(groupKind string) clusterv1.ContractVersionedObjectReference {
			gk := schema.ParseGroupKind(groupKind)
			return clusterv1.ContractVersionedObjectReference{APIGroup: gk.Group, Kind: gk.Kind, Name: "one"}
		}
		return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "one"}, Spec: clusterv1.ClusterSpec{
			InfrastructureRef: ref(infrastructure), ControlPlaneRef: ref(controlPlane)}}
	}
	const infra, plane, others = "RKECluster.rke.cattle.io", "RKEControlPlane.rke.cattle.io", "VSphereCluster.infrastructure.cluster.x-k8s.io"
	paused := naming(plane, plane)
	paused.Spec.Paused = new(true)
	for what, tt := range map[string]struct {
		is   *clusterv1.Cluster
		was  runtime.Object
		says string
	}{
		"both as they should be":    {naming(infra, plane), nil, ""},
		"others' infrastructure":    {naming(others, plane), nil, ""},
		"infrastructure: a machine": {naming("DigitaloceanMachine.rke-machine.cattle.io", plane), nil, "spec.infrastructureRef: kind DigitaloceanMachine of group rke-machine.cattle.io is not supported here: name an RKECluster of group rke.cattle.io"},
		"infrastructure: a plane":   {naming(plane, plane), nil, "spec.infrastructureRef: kind RKEControlPlane of group rke.cattle.io is not supported here: name an RKECluster of group rke.cattle.io"},
		"a plane: infrastructure":   {naming(infra, infra), nil, "spec.controlPlaneRef: kind RKECluster of group rke.cattle.io is not supported here: name an RKEControlPlane of group rke.cattle.io"},
		"a plane: a config":         {naming(infra, "DigitaloceanConfig.rke-machine-config.cattle.io"), nil, "spec.controlPlaneRef: kind DigitaloceanConfig of group rke-machine-config.cattle.io is not supported here: name an RKEControlPlane of group rke.cattle.io"},
		"it was there":              {paused, naming(plane, plane), ""},
		"it becomes wrong":          {naming(plane, plane), naming(infra, plane), "spec.infrastructureRef: kind RKEControlPlane of group rke.cattle.io is not supported here: name an RKECluster of group rke.cattle.io"},
		"it becomes right":          {naming(infra, plane), naming(plane, plane), ""},
	} {
		t.Run(what, func(t *testing.T) {
			response := (&Webhook{Client: fakeClient(t)}).Handle(t.Context(), asked(t, "Cluster", tt.is, tt.was))
			require.Equal(t, tt.says == "", response.Allowed)
			if tt.says != "" {
				require.Equal(t, tt.says, response.Result.Message)
			}
		})
	}
}

// A user gets a warning about a reference to a kind that does not exist, once.
func TestMissingKinds(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{clusterv1.GroupVersion})
	mapper.Add(clusterv1.GroupVersion.WithKind("Cluster"), meta.RESTScopeNamespace)
	c := fake.NewClientBuilder().WithScheme(fakeClient(t).Scheme()).WithRESTMapper(mapper).Build()
	known := clusterv1.ContractVersionedObjectReference{APIGroup: "cluster.x-k8s.io", Kind: "Cluster", Name: "x"}
	missing := clusterv1.ContractVersionedObjectReference{APIGroup: "evil.example.com", Kind: "Nothing", Name: "x"}
	of := metav1.ObjectMeta{Namespace: "tenant", Name: "one"}
	machine := func(infrastructure, config clusterv1.ContractVersionedObjectReference) *clusterv1.Machine {
		return &clusterv1.Machine{ObjectMeta: of, Spec: clusterv1.MachineSpec{InfrastructureRef: infrastructure, Bootstrap: clusterv1.Bootstrap{ConfigRef: config}}}
	}
	template := clusterv1.MachineTemplateSpec{Spec: machine(missing, known).Spec}
	zone := machine(missing, known)
	zone.Spec.FailureDomain = "b"
	const says = ": kind Nothing of group evil.example.com does not exist. Cluster API can neither create nor delete the object until the provider of this kind is installed"
	for what, tt := range map[string]struct {
		kind string
		is   runtime.Object
		was  runtime.Object
		want []string
	}{
		"known":          {"Machine", machine(known, known), nil, nil},
		"no bootstrap":   {"Machine", machine(known, clusterv1.ContractVersionedObjectReference{}), nil, nil},
		"infrastructure": {"Machine", machine(missing, known), nil, []string{"spec.infrastructureRef" + says}},
		"both":           {"Machine", machine(missing, missing), nil, []string{"spec.infrastructureRef" + says, "spec.bootstrap.configRef" + says}},
		"as before":      {"Machine", zone, machine(missing, known), nil},
		"a changed one":  {"Machine", machine(missing, known), machine(known, known), []string{"spec.infrastructureRef" + says}},
		"a set":          {"MachineSet", &clusterv1.MachineSet{ObjectMeta: of, Spec: clusterv1.MachineSetSpec{Template: template}}, nil, []string{"spec.template.spec.infrastructureRef" + says}},
		"a deployment":   {"MachineDeployment", &clusterv1.MachineDeployment{ObjectMeta: of, Spec: clusterv1.MachineDeploymentSpec{Template: template}}, nil, []string{"spec.template.spec.infrastructureRef" + says}},
		"a Cluster":      {"Cluster", &clusterv1.Cluster{ObjectMeta: of, Spec: clusterv1.ClusterSpec{InfrastructureRef: missing, ControlPlaneRef: missing}}, nil, []string{"spec.infrastructureRef" + says, "spec.controlPlaneRef" + says}},
	} {
		t.Run(what, func(t *testing.T) {
			response := (&Webhook{Client: c}).Handle(t.Context(), asked(t, tt.kind, tt.is, tt.was))
			require.True(t, response.Allowed)
			require.Equal(t, tt.want, response.Warnings)
		})
	}
}

// A ClusterClass, and a Cluster with a topology, are rejected with one sentence. Those that are stored already can be labelled and deleted.
func TestTopology_isRejected(t *testing.T) {
	const says = "the embedded Cluster API does not serve ClusterClasses: write the Cluster without spec.topology, " +
		"or install the upstream core (clusterctl init) and start the manager with --capi=external"
	of := metav1.ObjectMeta{Namespace: "tenant", Name: "one"}
	class := &clusterv1.ClusterClass{ObjectMeta: of}
	cluster := &clusterv1.Cluster{ObjectMeta: of, Spec: clusterv1.ClusterSpec{Topology: clusterv1.Topology{Version: "v1.34.0", ClassRef: clusterv1.ClusterClassRef{Name: "one"}}}}
	plain := &clusterv1.Cluster{ObjectMeta: of}
	labelled := func(obj client.Object) client.Object {
		is, _ := obj.DeepCopyObject().(client.Object)
		is.SetLabels(map[string]string{"a": "b"})
		return is
	}
	changed, newer := class.DeepCopy(), cluster.DeepCopy()
	changed.Spec.ControlPlane.TemplateRef.Name = "x"
	newer.Spec.Topology.Version = "v1.35.0"
	for what, tt := range map[string]struct {
		kind string
		is   client.Object
		was  runtime.Object
		says string
	}{
		"a class":                       {"ClusterClass", class, nil, says},
		"a class that changes":          {"ClusterClass", changed, class, says},
		"a class that is labelled":      {"ClusterClass", labelled(class), class, ""},
		"a Cluster of a class":          {"Cluster", cluster, nil, "spec.topology: " + says},
		"a Cluster that gets a class":   {"Cluster", cluster, plain, "spec.topology: " + says},
		"a Cluster of one that changes": {"Cluster", newer, cluster, "spec.topology: " + says},
		"a Cluster that is labelled":    {"Cluster", labelled(cluster), cluster, ""},
		"a Cluster without":             {"Cluster", plain, nil, ""},
	} {
		t.Run(what, func(t *testing.T) {
			response := (&Webhook{Client: fakeClient(t)}).Handle(t.Context(), asked(t, tt.kind, tt.is, tt.was))
			require.Equal(t, tt.says == "", response.Allowed)
			if tt.says != "" {
				require.Equal(t, tt.says, response.Result.Message)
			}
		})
	}
}

func TestTemplates(t *testing.T) {
	for text, problem := range map[string]string{
		"": "",
		"{{ .cluster.name }}-{{ .machineSet.name }}-{{ .random }}":       "",
		`{{ if and .a (eq .b "x") }}{{ .c }}{{ else }}{{ .e }}{{ end }}`: "",
		`{{ printf "%s-%05d" .a .b }}`:                                   "",
		`{{ slice .cluster.name 0 (len .random) }}-{{ .random }}`:        "",
		"{{ broken":                        "",
		"plain":                            "",
		"{{ range 1000000000 }}x{{ end }}": "range",
		"{{ range .n }}x{{ end }}":         "range",
		"{{ if .a }}{{ else }}{{ range .n }}x{{ end }}{{ end }}": "range",
		`{{ repeat 1000000000 "x" }}`:                            "function repeat",
		`{{ call .f }}`:                                          "function call",
		`{{ .a | js | js | js }}`:                                "function js",
		`{{ (js .a).b }}`:                                        "function js",
		`{{ if js .a }}{{ end }}`:                                "function js",
		`{{ print (js .a) }}`:                                    "function js",
		`{{ print js }}`:                                         "function js",

		`{{ printf "%999999d" 1 }}`:                                     "a constant with",
		`{{ printf "%*d" 999999 1 }}`:                                   "a constant with",
		`{{ printf "%.999999d" 1 }}`:                                    "a constant with",
		`{{ printf "%[1]*d" 999999 }}`:                                  "a constant with",
		`{{ printf .f 1 }}`:                                             "a constant with",
		`{{ "%999999d" | printf }}`:                                     "a constant with",
		`{{ define "a" }}{{ template "a" }}{{ end }}{{ template "a" }}`: "templates in templates",
		strings.Repeat("x", 257):                                        "more than 256 bytes",
	} {
		err := checkTemplate(text)
		if problem == "" {
			require.NoError(t, err, text)
		} else {
			require.ErrorContains(t, err, problem, text)
		}
	}
}

// FuzzTemplate executes each template that passes, as Cluster API does: its output is bounded.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{"{{ .cluster.name }}-{{ .machineSet.name }}-{{ .random }}", `{{ printf "%99d" 1 }}{{ print .cluster .cluster (print . .) }}`,
		`{{ if eq .random "x" }}{{ .cluster.name }}{{ else }}{{ index .machineSet "name" }}{{ end }}`} {
		f.Add(text)
	}
	name := map[string]any{"name": strings.Repeat("n", 63)}
	data := map[string]any{"cluster": name, "machineSet": name, "random": "x1y2z"}
	f.Fuzz(func(t *testing.T, text string) {
		if checkTemplate(text) != nil {
			return
		}
		parsed, err := template.New("").Option("missingkey=error").Parse(text)
		if err != nil {
			return
		}
		var out bytes.Buffer
		_ = parsed.Execute(&out, data)
		require.Less(t, out.Len(), 1<<16)
	})
}

// Cluster API executes the template of a MachineSet and of a MachineDeployment, also to validate it. Our webhook is asked first, and the
// controllers do not read an object that is stored already.
func TestTemplates_everywhere(t *testing.T) {
	const bomb = "{{ range 1000000000 }}xxxxxxxxxxxx{{ end }}"
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "m"}, Spec: clusterv1.MachineSetSpec{MachineNaming: clusterv1.MachineNamingSpec{Template: bomb}}}
	deployment := &clusterv1.MachineDeployment{ObjectMeta: set.ObjectMeta, Spec: clusterv1.MachineDeploymentSpec{MachineNaming: clusterv1.MachineNamingSpec{Template: bomb}}}
	for kind, obj := range map[string]client.Object{"MachineSet": set, "MachineDeployment": deployment} {
		t.Run(kind, func(t *testing.T) {
			c := fakeClient(t, obj)
			response := (&Webhook{Client: c}).Handle(t.Context(), asked(t, kind, obj, nil))
			require.False(t, response.Allowed)
			require.Equal(t, "spec.machineNaming.template: range is not supported, because it may never end", response.Result.Message)
			read := obj.DeepCopyObject().(client.Object)
			require.ErrorContains(t, Naming{c}.Get(t.Context(), client.ObjectKeyFromObject(obj), read), "range is not supported")
		})
	}
	require.NoError(t, Naming{fakeClient(t, &clusterv1.Cluster{ObjectMeta: set.ObjectMeta})}.Get(t.Context(), client.ObjectKeyFromObject(set), &clusterv1.Cluster{}))
}

// The documents of a ClusterResourceSet are not expanded before they are counted.
func TestResources_areBounded(t *testing.T) {
	bomb := "a: &a " + strings.Repeat("x", 10<<10) + "\nb: [" + strings.Repeat("*a,", 100_000) + "*a]\n"
	for name, tt := range map[string]struct{ content, problem string }{
		"plain":         {"apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\n# nothing\n---\nkind: X\nscript: |\n  echo *\n", ""},
		"JSON":          {`{"kind":"X"}`, ""},
		"a bomb":        {bomb, "aliases"},
		"in the second": {"kind: X\n---\n" + bomb, "aliases"},
		"many nodes":    {"[" + strings.Repeat("[],", 100_000) + "[]]", "nodes"},
		"broken":        {"a: [", "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			meta := metav1.ObjectMeta{Namespace: "tenant", Name: "r"}
			recorder := events.NewFakeRecorder(10)
			c := Resources{Client: fakeClient(t, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"k": tt.content}},
				&corev1.Secret{ObjectMeta: meta, Type: addonsv1.ClusterResourceSetSecretType, Data: map[string][]byte{"k": []byte(tt.content)}}), recorder: recorder, mu: &sync.Mutex{}}
			for _, obj := range []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}} {
				err := c.Get(t.Context(), client.ObjectKey{Namespace: "tenant", Name: "r"}, obj)
				if tt.problem == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.problem)
					require.Contains(t, <-recorder.Events, "key k is not applied", "the set's owner learns which")
				}
			}
			require.Empty(t, recorder.Events)
		})
	}
}

// A Secret of another type is Cluster API's to refuse, which says so; one that is not there it passes over without a word.
func TestResources_notApplied(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	opaque := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "opaque"}, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"k": []byte("a: [")}}
	c := Resources{Client: fakeClient(t, opaque), recorder: recorder, mu: &sync.Mutex{}}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(opaque), &corev1.Secret{}))
	for _, obj := range []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}} {
		require.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKey{Namespace: "tenant", Name: "gone"}, obj)))
		require.Equal(t, "Warning ResourceMissing A ClusterResourceSet names it, but it does not exist", <-recorder.Events)
		require.Equal(t, client.ObjectKey{Namespace: "tenant", Name: "gone"}, client.ObjectKeyFromObject(obj), "whom the event is about")
	}
	require.Error(t, c.Get(t.Context(), client.ObjectKey{Namespace: "tenant", Name: "gone"}, &corev1.Namespace{}))
	require.Empty(t, recorder.Events)
}

// An authority that takes long to sign, or to read, is not signed with.
func TestAuthorities(t *testing.T) {
	encoded := func(primes int) []byte {
		key, err := rsa.GenerateMultiPrimeKey(rand.Reader, primes, 2048)
		require.NoError(t, err)
		return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	}
	for _, tt := range []struct {
		key     []byte
		allowed bool
	}{{encoded(2), true}, {encoded(3), false}, {bytes.Repeat(encoded(2), 400), false}} {
		encoded, allowed := tt.key, tt.allowed
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "c1-ca"}, Data: map[string][]byte{corev1.TLSPrivateKeyKey: encoded}}
		err := Authorities{fakeClient(t, secret)}.Get(t.Context(), client.ObjectKeyFromObject(secret), &corev1.Secret{})
		require.Equal(t, allowed, err == nil, "%v", err)
	}
}
