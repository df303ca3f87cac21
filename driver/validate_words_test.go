package driver_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/driver"
)

func TestValidateInFullWords(t *testing.T) {
	const url = "https://drivers.example/acme.zip"
	sha256 := strings.Repeat("A1", 32)
	// NodeDrivers as people write them, with every word of the answer.
	for what, tt := range map[string]struct {
		name        string
		annotations map[string]string
		spec        v3.NodeDriverSpec
		warnings    []string
		err         string
	}{
		"good":                 {spec: v3.NodeDriverSpec{URL: url, Checksum: sha256}},
		"good, upper scheme":   {spec: v3.NodeDriverSpec{URL: "HTTPS://drivers.example/acme.zip", Checksum: sha256}},
		"good, IPv6":           {spec: v3.NodeDriverSpec{URL: "http://[2001:db8::1]:8080/acme", Checksum: sha256}},
		"built in by its name": {name: "digitalocean", spec: v3.NodeDriverSpec{URL: "local://"}},
		"a password in the URL": {spec: v3.NodeDriverSpec{URL: "https://me:hidden@drivers.example/acme.zip", Checksum: sha256},
			warnings: []string{"spec.url contains a password, which every user with read access to NodeDrivers can see: serve the driver from an address without a password"}},
		"a user without a password": {spec: v3.NodeDriverSpec{URL: "https://me@drivers.example/acme.zip", Checksum: sha256}},
		"md5": {spec: v3.NodeDriverSpec{URL: url, Checksum: strings.Repeat("a", 32)},
			warnings: []string{"spec.checksum is md5, which can be forged: use sha256 or sha512"}},
		"sha1": {spec: v3.NodeDriverSpec{URL: url, Checksum: strings.Repeat("a", 40)},
			warnings: []string{"spec.checksum is sha1, which can be forged: use sha256 or sha512"}},
		"sha512": {spec: v3.NodeDriverSpec{URL: url, Checksum: strings.Repeat("a", 128)}},
		"not active yet": {spec: v3.NodeDriverSpec{URL: url},
			warnings: []string{"spec.checksum is empty: give the sha256 or sha512 of what spec.url serves before spec.active becomes true"}},
		"a file": {spec: v3.NodeDriverSpec{URL: "file:///etc/passwd"}, err: `spec.url: the scheme "file" is not one of local://, https://, http://`},
		"anything goes": {spec: v3.NodeDriverSpec{URL: "http://me:hidden@drivers.example/acme", InsecureSkipChecksum: true},
			warnings: []string{
				"spec.url contains a password, which every user with read access to NodeDrivers can see: serve the driver from an address without a password",
				"spec.insecureSkipChecksum is set: an attacker who controls spec.url, or the network path to it, can run any program with your cloud credentials"}},
		"a checksum is checked though none is needed": {spec: v3.NodeDriverSpec{URL: url, InsecureSkipChecksum: true, Checksum: "abc"},
			err: "spec.checksum: is not hexadecimal"},
		"a digest with its kind": {spec: v3.NodeDriverSpec{URL: url, Checksum: "sha256:" + sha256}, err: "spec.checksum: is not hexadecimal"},
		"sha384":                 {spec: v3.NodeDriverSpec{URL: url, Checksum: strings.Repeat("a", 96)}, err: "spec.checksum: has 96 digits; md5 has 32, sha1 40, sha256 64, sha512 128"},
		"no URL":                 {err: `spec.url: the scheme "" is not one of local://, https://, http://`},
		"a port without a host":  {spec: v3.NodeDriverSpec{URL: "https://:443/x"}, err: "spec.url: has no host"},
		"not built in": {spec: v3.NodeDriverSpec{URL: "local://"}, err: `spec.url is local://, but no driver named "acme" is built in; built in are ` +
			"amazonec2, azure, digitalocean, exoscale, generic, google, hyperv, none, noop, openstack, pod, rackspace, softlayer, virtualbox, " +
			"vmwarefusion, vmwarevcloudair, vmwarevsphere"},
		"everything at once": {name: "Acme Cloud", annotations: map[string]string{v3.DefaultsAnnotation: "region"}, spec: v3.NodeDriverSpec{URL: url, Active: true},
			err: `spec.displayName: driver name "Acme Cloud" must be lower-case letters, digits and dashes, begin with a letter and not end with a dash` + "\n" +
				`reading annotation defaults: "region" is not of the form field:value` + "\n" +
				"spec.checksum is empty: give the sha256 or sha512 of what spec.url serves, or set spec.insecureSkipChecksum to accept anything"},
		"a long name": {name: strings.Repeat("a", 45), spec: v3.NodeDriverSpec{URL: url, Checksum: sha256},
			err: "spec.displayName: driver name " + `"` + strings.Repeat("a", 45) + `" has 45 characters, at most 44 can become the name of a kind`},
		"a longer name": {name: strings.Repeat("a", 300), spec: v3.NodeDriverSpec{URL: url, Checksum: sha256},
			err: "spec.displayName has 300 characters, at most 57 are accepted"},
	} {
		t.Run(what, func(t *testing.T) {
			name := tt.name
			if name == "" {
				name = "acme"
			}
			nd := &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "nd-x7k2p", Annotations: tt.annotations}, Spec: tt.spec}
			nd.Spec.DisplayName = name
			before := nd.DeepCopy()
			warnings, err := driver.Validate(nd)
			require.Equal(t, tt.warnings, warnings)
			require.Equal(t, before, nd, "judging changes nothing")
			if tt.err == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tt.err)
			require.NotContains(t, err.Error(), "hidden")
		})
	}
}
