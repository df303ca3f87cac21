package driver

import (
	"cmp"
	"maps"
	"runtime"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/crdgen"
)

// Predefined returns the NodeDrivers that exist from the start, by driver name. They are to be created when absent and
// otherwise left to their owners.
func Predefined() []v3.NodeDriver { return predefined(runtime.GOARCH) }

// predefined is for servers of an architecture, as Go names it.
func predefined(arch string) []v3.NodeDriver {
	var out []v3.NodeDriver
	for _, cloud := range clouds.All() {
		if cloud.NodeDriver != nil {
			out = append(out, nodeDriver(cloud.Driver, *cloud.NodeDriver, arch))
		}
	}
	return out
}

func nodeDriver(driverName string, known clouds.NodeDriver, arch string) v3.NodeDriver {
	spec := v3.NodeDriverSpec{
		DisplayName: driverName, Description: known.Description, URL: v3.BuiltinURLPrefix, Builtin: true,
		Active: known.Active, AddCloudCredential: known.AddCredential, WhitelistDomains: slices.Clone(known.Hosts),
	}
	if known.Plugin.URL != "" {
		spec.URL, spec.Checksum = known.Plugin.For(arch)
		spec.Builtin = false
		if len(known.Plugin.Checksums) == 1 {
			spec.Description += " For amd64 only."
		}
	}
	rules := crdgen.Rules{
		PublicCredentialFields: known.Public, PrivateCredentialFields: known.Private,
		OptionalCredentialFields: known.Optional, PasswordFields: known.Passwords,
	}
	for _, field := range slices.Sorted(maps.Keys(known.Defaults)) {
		rules.Defaults = append(rules.Defaults, crdgen.FieldDefault{Field: field, Value: known.Defaults[field]})
	}
	for _, field := range slices.Sorted(maps.Keys(known.Files)) {
		rules.FileAliases = append(rules.FileAliases, crdgen.FileAlias{Field: field, DriverField: known.Files[field]})
	}
	return v3.NodeDriver{
		TypeMeta:   metav1.TypeMeta{APIVersion: v3.GroupVersion.String(), Kind: "NodeDriver"},
		ObjectMeta: metav1.ObjectMeta{Name: cmp.Or(known.Name, driverName), Annotations: rules.Annotations()},
		Spec:       spec,
	}
}
