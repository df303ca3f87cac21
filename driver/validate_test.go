package driver_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/driver"
)

func TestValidateSaysWhatToDo(t *testing.T) {
	const url = "https://drivers.example/docker-machine-driver-acme.tar.gz"
	for name, test := range map[string]struct {
		spec    v3.NodeDriverSpec
		warning string
		problem string
	}{
		"sha256":             {spec: v3.NodeDriverSpec{URL: url, Checksum: strings.Repeat("a", 64)}},
		"sha512":             {spec: v3.NodeDriverSpec{URL: url, Checksum: strings.Repeat("a", 128)}},
		"md5":                {spec: v3.NodeDriverSpec{URL: url, Checksum: strings.Repeat("a", 32)}, warning: "spec.checksum is md5"},
		"sha1":               {spec: v3.NodeDriverSpec{URL: url, Checksum: strings.Repeat("a", 40)}, warning: "spec.checksum is sha1"},
		"no checksum":        {spec: v3.NodeDriverSpec{URL: url, Active: true}, problem: "spec.checksum is empty"},
		"not active yet":     {spec: v3.NodeDriverSpec{URL: url}, warning: "before spec.active becomes true"},
		"checksum waived":    {spec: v3.NodeDriverSpec{URL: url, InsecureSkipChecksum: true}, warning: "insecureSkipChecksum"},
		"odd checksum":       {spec: v3.NodeDriverSpec{URL: url, Checksum: "abcd"}, problem: "4 digits"},
		"no hex":             {spec: v3.NodeDriverSpec{URL: url, Checksum: strings.Repeat("z", 64)}, problem: "not hexadecimal"},
		"file URL":           {spec: v3.NodeDriverSpec{URL: "file:///etc/passwd"}, problem: `"file"`},
		"no host":            {spec: v3.NodeDriverSpec{URL: "https:///x"}, problem: "no host"},
		"empty URL":          {spec: v3.NodeDriverSpec{}, problem: "spec.url"},
		"built in":           {spec: v3.NodeDriverSpec{URL: "local://", DisplayName: "digitalocean"}},
		"unknown built in":   {spec: v3.NodeDriverSpec{URL: "local://"}, problem: `no driver named "acme" is built in`},
		"long name":          {spec: v3.NodeDriverSpec{URL: url, Checksum: strings.Repeat("a", 64), DisplayName: strings.Repeat("a", 58)}, problem: "at most 57"},
		"name for no kind":   {spec: v3.NodeDriverSpec{URL: url, Checksum: strings.Repeat("a", 64), DisplayName: strings.Repeat("a", 50)}, problem: "at most 44"},
		"capitals":           {spec: v3.NodeDriverSpec{URL: url, Checksum: strings.Repeat("a", 64), DisplayName: "Acme"}, problem: "lower-case"},
		"two things at once": {spec: v3.NodeDriverSpec{URL: "ftp://x/y", DisplayName: "a_b"}, problem: "lower-case"},
	} {
		t.Run(name, func(t *testing.T) {
			warnings, err := driver.Validate(&v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "acme"}, Spec: test.spec})
			if test.problem == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.problem)
			}
			if test.warning == "" {
				require.Empty(t, warnings)
			} else {
				require.Contains(t, strings.Join(warnings, "\n"), test.warning)
			}
		})
	}
	_, err := driver.Validate(&v3.NodeDriver{
		ObjectMeta: metav1.ObjectMeta{Name: "a.b", Annotations: map[string]string{v3.FileAliasesAnnotation: "userdata"}},
		Spec:       v3.NodeDriverSpec{URL: "ftp://x"}})
	require.ErrorContains(t, err, "lower-case")
	require.ErrorContains(t, err, "ftp")
	require.ErrorContains(t, err, "field:value")
}
