package guard

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

func classOf(namespace, allowed string) *clusterv1.ClusterClass {
	class := &clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "class"}}
	if allowed != "" {
		class.Annotations = map[string]string{rkev1.AllowedNamespacesAnnotation: allowed}
	}
	return class
}

func clusterOf(namespace, classNamespace string) *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"}, Spec: clusterv1.ClusterSpec{
		Topology: clusterv1.Topology{Version: "v1.34.0", ClassRef: clusterv1.ClusterClassRef{Name: "class", Namespace: classNamespace}}}}
}

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

// A tenant uses no other namespace's class, and does not hear whether it is there; the controller does not act on objects that are there already.
func TestClasses_ofOtherNamespaces(t *testing.T) {
	for name, tt := range map[string]struct {
		classes []client.Object
		cluster *clusterv1.Cluster
		allowed bool
	}{
		"his own":          {nil, clusterOf("tenant", ""), true},
		"his own, named":   {nil, clusterOf("tenant", "tenant"), true},
		"another's":        {[]client.Object{classOf("victim", "")}, clusterOf("tenant", "victim"), false},
		"not there":        {nil, clusterOf("tenant", "victim"), false},
		"shared with all":  {[]client.Object{classOf("victim", "*")}, clusterOf("tenant", "victim"), true},
		"shared with him":  {[]client.Object{classOf("victim", "a, tenant")}, clusterOf("tenant", "victim"), true},
		"shared with some": {[]client.Object{classOf("victim", "tenant2,b")}, clusterOf("tenant", "victim"), false},
		"no topology":      {nil, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "c1"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := fakeClient(t, append(tt.classes, tt.cluster)...)
			g := &Webhook{Client: c, Patterns: &Patterns{}}
			response := g.Handle(t.Context(), asked(t, "Cluster", tt.cluster, nil))
			require.Equal(t, tt.allowed, response.Allowed)
			if !tt.allowed {
				require.Equal(t, "spec.topology.classRef: "+errClass.Error(), response.Result.Message, "the same, be it there or not")
				labelled := tt.cluster.DeepCopy()
				labelled.Labels = map[string]string{"a": "b"}
				require.True(t, g.Handle(t.Context(), asked(t, "Cluster", labelled, tt.cluster)).Allowed, "what is there can be labelled, and let go")
				changed := tt.cluster.DeepCopy()
				changed.Spec.Topology.Version = "v1.35.0"
				require.False(t, g.Handle(t.Context(), asked(t, "Cluster", changed, tt.cluster)).Allowed)
			}
			read := &clusterv1.Cluster{}
			recorder := events.NewFakeRecorder(1)
			require.NoError(t, NewTopology(c, recorder, &Patterns{}).Get(t.Context(), client.ObjectKeyFromObject(tt.cluster), read))
			require.Equal(t, tt.allowed, len(recorder.Events) == 0)
			require.Equal(t, tt.allowed && tt.cluster.Spec.Topology.IsDefined(), read.Spec.Topology.IsDefined())

			users := &clusterv1.ClusterList{}
			require.NoError(t, ClassUsers{c}.List(t.Context(), users))
			require.Len(t, users.Items, map[bool]int{true: 1, false: 0}[tt.allowed], "who may not use it keeps nobody from deleting it")
		})
	}
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
			g := &Webhook{Client: fakeClient(t, tt.there), Patterns: &Patterns{}}
			var was runtime.Object
			if tt.was != nil {
				was = tt.was
			}
			response := g.Handle(t.Context(), asked(t, "Cluster", tt.is, was))
			require.Equal(t, tt.allowed, response.Allowed)
			if !tt.allowed {
				require.Equal(t, "spec.controlPlaneRef: the RKEControlPlane cp is that of Cluster c1: give this Cluster one of its own", response.Result.Message)
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
		"infrastructure: a machine": {naming("DigitaloceanMachine.rke-machine.cattle.io", plane), nil, "spec.infrastructureRef: kind DigitaloceanMachine of group rke-machine.cattle.io does not fit here: name an RKECluster of group rke.cattle.io"},
		"infrastructure: a plane":   {naming(plane, plane), nil, "spec.infrastructureRef: kind RKEControlPlane of group rke.cattle.io does not fit here: name an RKECluster of group rke.cattle.io"},
		"a plane: infrastructure":   {naming(infra, infra), nil, "spec.controlPlaneRef: kind RKECluster of group rke.cattle.io does not fit here: name an RKEControlPlane of group rke.cattle.io"},
		"a plane: a config":         {naming(infra, "DigitaloceanConfig.rke-machine-config.cattle.io"), nil, "spec.controlPlaneRef: kind DigitaloceanConfig of group rke-machine-config.cattle.io does not fit here: name an RKEControlPlane of group rke.cattle.io"},
		"it was there":              {paused, naming(plane, plane), ""},
		"it becomes wrong":          {naming(plane, plane), naming(infra, plane), "spec.infrastructureRef: kind RKEControlPlane of group rke.cattle.io does not fit here: name an RKECluster of group rke.cattle.io"},
		"it becomes right":          {naming(infra, plane), naming(plane, plane), ""},
	} {
		t.Run(what, func(t *testing.T) {
			response := (&Webhook{Client: fakeClient(t), Patterns: &Patterns{}}).Handle(t.Context(), asked(t, "Cluster", tt.is, tt.was))
			require.Equal(t, tt.says == "", response.Allowed)
			if tt.says != "" {
				require.Equal(t, tt.says, response.Result.Message)
			}
		})
	}
}

// reconcileTopology reads what the controller of topologies does before it makes anything.
func reconcileTopology(t *testing.T, c client.Client, cluster *clusterv1.Cluster) error {
	t.Helper()
	reader := NewTopology(c, events.NewFakeRecorder(1), &Patterns{})
	read := &clusterv1.Cluster{}
	require.NoError(t, reader.Get(t.Context(), client.ObjectKeyFromObject(cluster), read))
	return reader.Get(t.Context(), read.GetClassKey(), &clusterv1.ClusterClass{})
}

func TestVariables_areBounded(t *testing.T) {
	big := apiextensionsv1.JSON{Raw: []byte(`"` + strings.Repeat("x", maxVariables) + `"`)}
	cluster := clusterOf("tenant", "")
	cluster.Spec.Topology.Variables = []clusterv1.ClusterVariable{{Name: "a", Value: big}}
	class := classOf("tenant", "")
	c := fakeClient(t, cluster, class)
	require.False(t, (&Webhook{Client: c, Patterns: &Patterns{}}).Handle(t.Context(), asked(t, "Cluster", cluster, nil)).Allowed)
	require.ErrorContains(t, reconcileTopology(t, c, cluster), "32 KiB")
	class.Spec.Variables = []clusterv1.ClusterClassVariable{{Name: "a", Schema: clusterv1.VariableSchema{OpenAPIV3Schema: clusterv1.JSONSchemaProps{Type: "string", Default: &big}}}}
	require.False(t, (&Webhook{Client: c, Patterns: &Patterns{}}).Handle(t.Context(), asked(t, "ClusterClass", class, nil)).Allowed)
}

func TestTemplates(t *testing.T) {
	for text, problem := range map[string]string{
		"{{ .cluster.name }}-{{ .machineSet.name }}-{{ .random }}":                                                  "",
		`{{ if and .a (eq .b "x") }}{{ .c | default "d" | quote }}{{ else }}{{ with .e }}{{ . }}{{ end }}{{ end }}`: "",
		`{{ printf "%s-%05d" .a .b }}`:                                 "",
		`a: {{ .a | trim | nindent 8 }}`:                               "",
		`{{ .a | replace "." "-" | quote }}`:                           "",
		`{{ $v := index .list 0 }}{{ $v }}{{ $v }}`:                    "",
		`{{ semverCompare ">= v1.30" .builtin.controlPlane.version }}`: "",
		"{{ broken":                                                     "",
		"plain":                                                         "",
		"{{ range 1000000000 }}x{{ end }}":                              "range",
		"{{ range .n }}x{{ end }}":                                      "range",
		`{{ repeat 1000000000 "x" }}`:                                   "function repeat",
		`{{ until 1000000000 }}`:                                        "function until",
		`{{ untilStep 0 1000000000 1 }}`:                                "function untilStep",
		`{{ genPrivateKey "rsa" }}`:                                     "function genPrivateKey",
		`{{ derivePassword 1 "long" "a" "b" "c" }}`:                     "function derivePassword",
		`{{ randAlpha 1000000000 }}`:                                    "function randAlpha",
		`{{ regexReplaceAll "x*" .a "yyyyyyyyyyy" }}`:                   "function regexReplaceAll",
		`{{ regexMatch "^[a-z]{1,63}$" .a }}`:                           "",
		`{{ regexMatch .pattern .a }}`:                                  "constant",
		`{{ .pattern | regexMatch }}`:                                   "constant",
		`{{ regexMatch "((a{100}){10})" .a }}`:                          "regular expressions",
		`{{ toPrettyJson .a }}`:                                         "function toPrettyJson",
		`{{ b64dec .a }}`:                                               "function b64dec",
		`{{ printf "%c" 38 }}`:                                          "wide format",
		`{{ call .f }}`:                                                 "function call",
		`{{ env "HOME" }}`:                                              "function env",
		`{{ getHostByName "metadata" }}`:                                "function getHostByName",
		`{{ $a := printf "%99d" 1 }}{{ $a = printf "%s%s" $a $a }}`:     "a variable keeps",
		`{{ printf "%999999d" 1 }}`:                                     "wide format",
		`{{ printf "%*d" 999999 1 }}`:                                   "wide format",
		`{{ printf "%.999999d" 1 }}`:                                    "wide format",
		`{{ printf .f 1 }}`:                                             "constant",
		`{{ "%999999d" | printf }}`:                                     "constant",
		`{{ .a | quote | quote | quote }}`:                              "pipeline",
		`{{ quote (quote (quote .a)) }}`:                                "pipeline",
		`{{ (quote (quote (quote .a))).b }}`:                            "pipeline",
		`{{ if quote (quote (quote .a)) }}{{ end }}`:                    "pipeline",
		`{{ .a | replace "" "xxxxxxxxxxxx" }}`:                          "4 characters",
		`{{ replace "" .a .a }}`:                                        "constant",
		`{{ indent 1000000 .a }}`:                                       "more than 16",
		`{{ indent .n .a }}`:                                            "constant",
		`{{ define "a" }}{{ template "a" }}{{ end }}{{ template "a" }}`: "templates in templates",
		strings.Repeat("{{ .a }}", 3000):                                "too many parts",
	} {
		err := checkTemplate(text)
		if problem == "" {
			require.NoError(t, err, text)
		} else {
			require.ErrorContains(t, err, problem, text)
		}
	}
}

// Where templates stand that Cluster API executes, also to validate them: ours are asked first, and what is there already is not read.
func TestTemplates_everywhere(t *testing.T) {
	const bomb = "{{ range 1000000000 }}xxxxxxxxxxxx{{ end }}"
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "m"}, Spec: clusterv1.MachineSetSpec{MachineNaming: clusterv1.MachineNamingSpec{Template: bomb}}}
	deployment := &clusterv1.MachineDeployment{ObjectMeta: set.ObjectMeta, Spec: clusterv1.MachineDeploymentSpec{MachineNaming: clusterv1.MachineNamingSpec{Template: bomb}}}
	class := func(spec clusterv1.ClusterClassSpec) *clusterv1.ClusterClass {
		return &clusterv1.ClusterClass{ObjectMeta: set.ObjectMeta, Spec: spec}
	}
	patched := func(patch clusterv1.ClusterClassPatch) clusterv1.ClusterClassSpec {
		return clusterv1.ClusterClassSpec{Patches: []clusterv1.ClusterClassPatch{patch}}
	}
	for name, obj := range map[string]client.Object{
		"MachineSet": set, "MachineDeployment": deployment,
		"ClusterClass enabledIf": class(patched(clusterv1.ClusterClassPatch{Name: "p", EnabledIf: bomb})),
		"ClusterClass valueFrom": class(patched(clusterv1.ClusterClassPatch{Name: "p", Definitions: []clusterv1.PatchDefinition{{
			JSONPatches: []clusterv1.JSONPatch{{Op: "add", Path: "/spec", ValueFrom: &clusterv1.JSONPatchValue{Template: bomb}}}}}})),
		"ClusterClass naming": class(clusterv1.ClusterClassSpec{ControlPlane: clusterv1.ControlPlaneClass{Naming: clusterv1.ControlPlaneClassNamingSpec{Template: bomb}}}),
		"ClusterClass workers": class(clusterv1.ClusterClassSpec{Workers: clusterv1.WorkersClass{MachineDeployments: []clusterv1.MachineDeploymentClass{{
			Naming: clusterv1.MachineDeploymentClassNamingSpec{Template: bomb}}}}}),
	} {
		t.Run(name, func(t *testing.T) {
			c := fakeClient(t, obj)
			response := (&Webhook{Client: c, Patterns: &Patterns{}}).Handle(t.Context(), asked(t, strings.Fields(name)[0], obj, nil))
			require.False(t, response.Allowed)
			require.Contains(t, response.Result.Message, "range is not executed")
			read := obj.DeepCopyObject().(client.Object)
			began := time.Now()
			require.Error(t, NewTopology(Naming{c}, nil, &Patterns{}).Get(t.Context(), client.ObjectKeyFromObject(obj), read))
			require.Less(t, time.Since(began), 10*time.Second)
		})
	}
	data := class(patched(clusterv1.ClusterClassPatch{Name: "p", Definitions: []clusterv1.PatchDefinition{{
		JSONPatches: []clusterv1.JSONPatch{{Op: "add", Path: "/x", Value: &apiextensionsv1.JSON{Raw: []byte(`{"template":"{{ range .a }}{{ end }}"}`)}}}}}}))
	require.True(t, (&Webhook{Client: fakeClient(t), Patterns: &Patterns{}}).Handle(t.Context(), asked(t, "ClusterClass", data, nil)).Allowed, "what is only data is not executed")
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
		require.Equal(t, "Warning ResourceMissing A ClusterResourceSet names it, and it is not there", <-recorder.Events)
		require.Equal(t, client.ObjectKey{Namespace: "tenant", Name: "gone"}, client.ObjectKeyFromObject(obj), "whom the event is about")
	}
	require.Error(t, c.Get(t.Context(), client.ObjectKey{Namespace: "tenant", Name: "gone"}, &corev1.Namespace{}))
	require.Empty(t, recorder.Events)
}

// A kind that is not there may come: who makes the class hears of it.
func TestClasses_ofKindsThatAreNotThere(t *testing.T) {
	ref := func(group, kind string) clusterv1.ClusterClassTemplateReference {
		return clusterv1.ClusterClassTemplateReference{APIVersion: group + "/v1", Kind: kind, Name: "one"}
	}
	there, gone := ref("rke.cattle.io", "RKEClusterTemplate"), ref("acme.example.org", "AcmeTemplate")
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(there.GroupVersionKind(), meta.RESTScopeNamespace)
	scheme := runtime.NewScheme()
	require.NoError(t, clusterv1.AddToScheme(scheme))
	webhook := &Webhook{Client: fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).Build(), Patterns: &Patterns{}}
	workers := func(bootstrap, infrastructure clusterv1.ClusterClassTemplateReference) clusterv1.WorkersClass {
		return clusterv1.WorkersClass{MachineDeployments: []clusterv1.MachineDeploymentClass{{Class: "w",
			Bootstrap: clusterv1.MachineDeploymentClassBootstrapTemplate{TemplateRef: bootstrap}, Infrastructure: clusterv1.MachineDeploymentClassInfrastructureTemplate{TemplateRef: infrastructure}}}}
	}
	for what, tt := range map[string]struct {
		change func(*clusterv1.ClusterClassSpec)
		warns  bool
	}{
		"all are there":           {func(*clusterv1.ClusterClassSpec) {}, false},
		"infrastructure":          {func(s *clusterv1.ClusterClassSpec) { s.Infrastructure.TemplateRef = gone }, true},
		"control plane":           {func(s *clusterv1.ClusterClassSpec) { s.ControlPlane.TemplateRef = gone }, true},
		"its machines":            {func(s *clusterv1.ClusterClassSpec) { s.ControlPlane.MachineInfrastructure.TemplateRef = gone }, true},
		"workers' bootstrap":      {func(s *clusterv1.ClusterClassSpec) { s.Workers = workers(gone, there) }, true},
		"workers' infrastructure": {func(s *clusterv1.ClusterClassSpec) { s.Workers = workers(there, gone) }, true},
		"several":                 {func(s *clusterv1.ClusterClassSpec) { s.Workers = workers(gone, gone) }, true},
		"another version":         {func(s *clusterv1.ClusterClassSpec) { s.ControlPlane.TemplateRef.APIVersion = "rke.cattle.io/v2" }, true},
	} {
		t.Run(what, func(t *testing.T) {
			class := classOf("tenant", "")
			class.Spec.Infrastructure.TemplateRef, class.Spec.ControlPlane.TemplateRef, class.Spec.Workers = there, there, workers(there, there)
			tt.change(&class.Spec)
			response := webhook.Handle(t.Context(), asked(t, "ClusterClass", class, nil))
			require.True(t, response.Allowed)
			if !tt.warns {
				require.Empty(t, response.Warnings)
				return
			}
			require.Len(t, response.Warnings, 1)
			require.Contains(t, response.Warnings[0], "names a kind that is not there")
		})
	}
}
