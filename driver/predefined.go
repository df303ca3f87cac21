package driver

import (
	"cmp"
	"maps"
	"runtime"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/clouds"
)

// Predefined returns the NodeDrivers that exist from the start, by driver name. They are created if
// missing and otherwise left to their owners.
func Predefined() []v3.NodeDriver { return predefined(runtime.GOARCH) }

// predefined is for servers of an architecture, as Go names it.
func predefined(arch string) []v3.NodeDriver {
	pairs := func(of map[string]string) []string {
		var out []string
		for _, field := range slices.Sorted(maps.Keys(of)) {
			out = append(out, field+":"+of[field])
		}
		return out
	}
	var out []v3.NodeDriver
	for _, cloud := range clouds.All() {
		known := cloud.NodeDriver
		if known == nil {
			continue
		}
		spec := v3.NodeDriverSpec{
			DisplayName: cloud.Driver, Description: known.Description, URL: v3.BuiltinURLPrefix, Builtin: true,
			Active: known.Active, AddCloudCredential: known.AddCredential, WhitelistDomains: slices.Clone(known.Hosts),
		}
		if known.Plugin.URL != "" {
			spec.URL, spec.Checksum = known.Plugin.For(arch)
			spec.Builtin = false
			if len(known.Plugin.Checksums) == 1 {
				spec.Description += " For amd64 only."
			}
		}
		annotations := map[string]string{}
		for annotation, items := range map[string][]string{
			v3.PublicCredentialFieldsAnnotation: known.Public, v3.PrivateCredentialFieldsAnnotation: known.Private,
			v3.OptionalCredentialFieldsAnnotation: known.Optional, v3.PasswordFieldsAnnotation: known.Passwords,
			v3.DefaultsAnnotation: pairs(known.Defaults), v3.FileAliasesAnnotation: pairs(known.Files),
		} {
			if len(items) > 0 {
				annotations[annotation] = strings.Join(items, ",")
			}
		}
		out = append(out, v3.NodeDriver{
			TypeMeta:   metav1.TypeMeta{APIVersion: v3.GroupVersion.String(), Kind: "NodeDriver"},
			ObjectMeta: metav1.ObjectMeta{Name: cmp.Or(known.Name, cloud.Driver), Annotations: annotations},
			Spec:       spec,
		})
	}
	return out
}
