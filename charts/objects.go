package charts

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Settings of an installation are the chart's values, which values.yaml documents; zero fields keep
// the defaults of values.yaml.
type Settings struct {
	// Namespace of the manager; DefaultNamespace when empty.
	Namespace string `json:"-"`
	// WithCRDs adds our static CRDs, which the manager otherwise installs itself: clusterctl looks
	// for them.
	WithCRDs bool `json:"-"`

	Image            string            `json:"image,omitempty"`
	ImagePullPolicy  string            `json:"imagePullPolicy,omitempty"`
	ImagePullSecrets []string          `json:"imagePullSecrets,omitempty"`
	Replicas         int32             `json:"replicas,omitempty"`
	CAPI             string            `json:"capi,omitempty"`
	NodeSelector     map[string]string `json:"nodeSelector,omitempty"`
	Tolerations      []string          `json:"tolerations,omitempty"`
	Jobs             JobSettings       `json:"jobs"`
	Webhooks         WebhookSettings   `json:"webhooks"`
	Agents           AgentSettings     `json:"agents"`
	Args             []string          `json:"args,omitempty"`
	Resources        map[string]any    `json:"resources,omitempty"`
}

// JobSettings are the settings of Jobs.
type JobSettings struct {
	Image      string `json:"image,omitempty"`
	HTTPProxy  string `json:"httpProxy,omitempty"`
	HTTPSProxy string `json:"httpsProxy,omitempty"`
	NoProxy    string `json:"noProxy,omitempty"`
	CABundle   string `json:"caBundle,omitempty"`
}

// WebhookSettings restrict the callers of the webhooks.
type WebhookSettings struct {
	ClientCA       string   `json:"clientCA,omitempty"`
	APIServerCIDRs []string `json:"apiServerCIDRs,omitempty"`
}

// AgentSettings say how agents reach the manager.
type AgentSettings struct {
	ServerURL   string `json:"serverURL,omitempty"`
	ServiceType string `json:"serviceType,omitempty"`
	NodePort    int32  `json:"nodePort,omitempty"`
}

// Objects returns all objects that run the manager, in the order to apply them: the chart's objects
// and the namespace. Webhooks and policies are not included: the manager installs them when it
// starts.
func Objects(s Settings) ([]client.Object, error) {
	s.Namespace = cmp.Or(s.Namespace, DefaultNamespace)
	objs := []client.Object{&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
		"name": s.Namespace, "labels": map[string]any{"pod-security.kubernetes.io/enforce": "restricted"}}}}}
	if s.WithCRDs {
		crds, err := definitions[unstructured.Unstructured]()
		if err != nil {
			return nil, err
		}
		for _, crd := range crds {
			objs = append(objs, crd)
		}
	}
	text, err := s.render()
	if err != nil {
		return nil, err
	}
	rendered, err := decode(text)
	if err != nil {
		return nil, err
	}
	objs = append(objs, rendered...)
	for _, obj := range objs {
		all := Labels()
		maps.Copy(all, obj.GetLabels())
		obj.SetLabels(all)
	}
	return objs, nil
}

// decode reads the rendered chart.
func decode(text string) ([]client.Object, error) {
	var objs []client.Object
	for decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(obj)
		if errors.Is(err, io.EOF) {
			return objs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the rendered chart: %w", err)
		}
		if len(obj.Object) > 0 { // else a document whose condition is not met
			objs = append(objs, obj)
		}
	}
}

// render fills in the chart's templates as helm does, with as much of helm as they use.
func (s Settings) render() (string, error) {
	// The values are values.yaml, overridden by the settings.
	given, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encoding the settings: %w", err)
	}
	var all Settings
	if err := read("drover/values.yaml", &all); err != nil {
		return "", err
	}
	if err := json.Unmarshal(given, &all); err != nil {
		return "", fmt.Errorf("decoding the settings: %w", err)
	}
	values, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&all)
	if err != nil {
		return "", err
	}
	chart := template.New("chart").Option("missingkey=zero").Funcs(sprig.TxtFuncMap())
	chart.Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var out strings.Builder
			err := chart.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"toYaml": func(value any) (string, error) {
			out, err := yaml.Marshal(value)
			return strings.TrimSuffix(string(out), "\n"), err
		},
		"fromYaml": func(text string) (out map[string]any, err error) {
			return out, yaml.Unmarshal([]byte(text), &out)
		},
	})
	if _, err := chart.ParseFS(files, "drover/templates/*"); err != nil {
		return "", fmt.Errorf("reading the chart: %w", err)
	}
	data := map[string]any{"Values": values, "Release": map[string]any{"Namespace": s.Namespace}, "Files": chartFiles{}}
	var out strings.Builder
	for _, name := range []string{"rbac.yaml", "manager.yaml"} {
		out.WriteString("\n---\n")
		if err := chart.ExecuteTemplate(&out, name, data); err != nil {
			return "", fmt.Errorf("rendering the chart: %w", err)
		}
	}
	return out.String(), nil
}

// chartFiles is helm's .Files.
type chartFiles struct{}

// Get reads a file of the chart.
func (chartFiles) Get(name string) (string, error) {
	text, err := files.ReadFile("drover/" + name)
	return string(text), err
}
