package crdgen

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
)

// Groups and version of the kinds.
const (
	MachineGroup = "rke-machine.cattle.io"
	ConfigGroup  = "rke-machine-config.cattle.io"
	Version      = "v1"
)

// maxDriverName leaves room for the longest name, <Name>MachineTemplateList, in a DNS label.
const maxDriverName = 63 - len("MachineTemplateList")

// Schema is the input for the kinds of one driver.
type Schema struct {
	// Driver is the driver's name, as in docker-machine-driver-<name>.
	Driver string
	// Fields as FieldsOf gives them.
	Fields []Field
}

// Kinds are the names of a driver's three kinds.
type Kinds struct {
	Config, MachineTemplate, Machine string
}

// KindsOf names the kinds of a driver: its name with a capital first letter, and a suffix.
func KindsOf(driver string) Kinds {
	if driver == "" {
		return Kinds{}
	}
	name := strings.ToUpper(driver[:1]) + driver[1:]
	return Kinds{Config: name + "Config", MachineTemplate: name + "MachineTemplate", Machine: name + "Machine"}
}

// DriverOfConfig returns the driver of a kind of Configs, as KindsOf names the kind.
func DriverOfConfig(kind string) string {
	name := strings.TrimSuffix(kind, "Config")
	if name == "" {
		return ""
	}
	return strings.ToLower(name[:1]) + name[1:]
}

// CRDName returns the name that Cluster API expects for the CRD of a kind: the plural of its
// lower-case name as github.com/gobuffalo/flect forms it (Cluster API, internal/contract,
// CalculateCRDName). All our kinds end in words with a regular plural.
func CRDName(group, kind string) string {
	return strings.ToLower(kind) + "s." + group
}

// CheckDriverName refuses names that cannot become kinds.
func CheckDriverName(name string) error {
	if len(name) > maxDriverName {
		return fmt.Errorf("driver name %q has %d characters, at most %d can become the name of a kind", name, len(name), maxDriverName)
	}
	if !regexp.MustCompile(`^[a-z]([a-z0-9-]*[a-z0-9])?$`).MatchString(name) {
		return fmt.Errorf("driver name %q must be lower-case letters, digits and dashes, begin with a letter and not end with a dash", name)
	}
	return nil
}

// CRDs creates the three kinds of a driver. They are complete, including TypeMeta; Manifest returns
// the form to apply.
func CRDs(schema Schema) (config, template, machine *apiextensionsv1.CustomResourceDefinition, err error) {
	if err := CheckDriverName(schema.Driver); err != nil {
		return nil, nil, nil, err
	}
	schema.Fields = fitUsages(schema.Fields)
	withDefaults, err := fieldProperties(schema.Fields, true)
	plain, plainErr := fieldProperties(schema.Fields, false)
	table, tableErr := encodeFields(schema.Fields)
	if err := cmp.Or(err, plainErr, tableErr); err != nil {
		return nil, nil, nil, fmt.Errorf("making the kinds of driver %s: %w", schema.Driver, err)
	}
	plain[CommonField] = commonProperty(schema.Driver)
	plain[ProviderIDField] = text("ProviderID is the server's id as the cloud's controller manager writes it into the Node. Set once, by Drover.", 512)
	if clouds.Of(schema.Driver).ConfigHasCommon {
		const unread = "Rancher's kind has it; ignored, because the pool sets it."
		withDefaults[CommonField] = schemaProps{Type: "object", Description: unread, Nullable: true, XPreserveUnknownFields: new(true)}
		withDefaults[ProviderIDField] = schemaProps{Type: "string", Description: unread, Nullable: true, MaxLength: new(int64(512))}
	}
	kinds, b := KindsOf(schema.Driver), builder{driver: schema.Driver, table: table}

	config = b.crd(ConfigGroup, kinds.Config, "c", topLevel(
		fmt.Sprintf("Options of the docker-machine driver %s for one pool of machines; drivers' defaults are filled in.", schema.Driver), withDefaults))
	template = b.crd(MachineGroup, kinds.MachineTemplate, "mt", templateBody(schema.Driver, plain))
	template.Spec.Versions[0].AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{
		// Cluster API makes the Cluster an owner of each used template; only a ClusterClass sets
		// the label.
		column("Cluster", `.metadata.ownerReferences[?(@.kind=="Cluster")].name`, "Cluster the template belongs to", 0),
		column("Credential", ".spec.template.spec.common.cloudCredentialSecretName", "Secret with the cloud's credential", 0),
		ageColumn,
	}
	spec := object("Spec has the options of the driver.", plain)
	// It stands on the object around providerID, so that taking the field away is seen too.
	spec.XValidations = apiextensionsv1.ValidationRules{{
		Rule:    `!has(oldSelf.providerID) || oldSelf.providerID == '' || (has(self.providerID) && self.providerID == oldSelf.providerID)`,
		Message: "providerID cannot be changed once it is set: delete the Machine to get another server"}}
	machine = b.crd(MachineGroup, kinds.Machine, "m", topLevel(fmt.Sprintf("A server made by the docker-machine driver %s.", schema.Driver),
		map[string]schemaProps{"spec": spec, "status": machineStatus()}, "spec"))
	machine.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	machine.Spec.Versions[0].AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{
		column("Cluster", `.metadata.labels['cluster\.x-k8s\.io/cluster-name']`, "Cluster the machine belongs to", 0),
		column("Phase", ".status.phase", "Pending, Creating, Running, Failed or Deleting", 0),
		column("Ready", `.status.conditions[?(@.type=="Ready")].status`, "Whether the server exists and its state is stored", 0),
		column("Address", ".status.addresses[0].address", "First address of the server", 0),
		column("Reason", `.status.conditions[?(@.type=="Ready")].reason`, "Why it is so", 0),
		ageColumn,
		column("Instance", ".status.instanceName", "The server's name at the cloud", 1),
		column("ProviderID", ".spec.providerID", "The server's id at the cloud", 1),
		column("Machine", ".metadata.labels['rke\\.cattle\\.io/capi-machine-name']", "Cluster API Machine that owns this one", 1),
	}
	return config, template, machine, nil
}

type builder struct {
	driver, table string
}

func (b builder) crd(group, kind, short string, body schemaProps) *apiextensionsv1.CustomResourceDefinition {
	// No two kinds share a suffix, so drivers cannot collide with each other; the names of a driver
	// of one or two letters could collide with Kubernetes' own (cm, pvc).
	var shortNames []string
	if len(b.driver) > 2 {
		shortNames = []string{b.driver + short}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta: metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{
			Name: CRDName(group, kind),
			// By these labels Cluster API, clusterctl and user roles find the kinds. The config
			// kind has them, too: clusterctl moves only labelled kinds, and a provisioning Cluster
			// is useless without its configs.
			Labels: map[string]string{
				"cluster.x-k8s.io/v1beta1":       Version,
				"cluster.x-k8s.io/v1beta2":       Version,
				"cluster.x-k8s.io/provider":      "infrastructure-drover",
				"clusterctl.cluster.x-k8s.io":    "",
				"auth.cattle.io/cluster-indexed": "true",
				rkev1.NodeDriverLabel:            b.driver,
			},
			Annotations: map[string]string{FieldsAnnotation: b.table},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind: kind, ListKind: kind + "List", Plural: strings.ToLower(kind) + "s", Singular: strings.ToLower(kind),
				ShortNames: shortNames,
				Categories: []string{"cluster-api", "drover"},
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: Version, Served: true, Storage: true,
				Schema:                   &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &body},
				AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{ageColumn},
			}},
		},
	}
}

func templateBody(driver string, fields map[string]schemaProps) schemaProps {
	metadata := object("Metadata of machines made from this template.", map[string]schemaProps{
		"labels":      stringMap("Labels of the machines.", 63),
		"annotations": stringMap("Annotations of the machines.", 256<<10),
	})
	spec := object("Spec of machines made from this template.", fields)
	return topLevel(fmt.Sprintf("A template for servers made by the docker-machine driver %s. Change machines by making a new template.", driver),
		map[string]schemaProps{
			"spec": object("Spec of the template.", map[string]schemaProps{
				"clusterName": text("ClusterName is the Cluster this template belongs to.", 253),
				"template":    object("Template is what machines are made from.", map[string]schemaProps{"metadata": metadata, "spec": spec}),
			}, "template"),
		}, "spec")
}

func topLevel(description string, properties map[string]schemaProps, required ...string) schemaProps {
	body := object(description, map[string]schemaProps{
		"apiVersion": {Type: "string", Description: "APIVersion is the group and version of this kind."},
		"kind":       {Type: "string", Description: "Kind is the name of this kind."},
		"metadata":   {Type: "object"},
	}, required...)
	maps.Copy(body.Properties, properties)
	return body
}

func column(name, path, description string, priority int32) apiextensionsv1.CustomResourceColumnDefinition {
	return apiextensionsv1.CustomResourceColumnDefinition{Name: name, Type: "string", JSONPath: path, Description: description, Priority: priority}
}

var ageColumn = apiextensionsv1.CustomResourceColumnDefinition{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"}
