package driver

import (
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/testkit/golden"
)

// The drivers we bring along, in full: an address or a checksum that changes by accident would run another program.
func TestPredefinedTablesAreGolden(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		var out strings.Builder
		for _, nd := range predefined(arch) {
			fmt.Fprintf(&out, "%s: driver %s, active %t, built in %t\n  %s\n  %s %s\n", nd.Name, nd.DriverName(), nd.Spec.Active, nd.Spec.Builtin,
				nd.Spec.Description, nd.Spec.URL, nd.Spec.Checksum)
			for _, host := range nd.Spec.WhitelistDomains {
				fmt.Fprintf(&out, "  host %s\n", host)
			}
			for _, key := range slices.Sorted(maps.Keys(nd.Annotations)) {
				fmt.Fprintf(&out, "  %s: %s\n", key, nd.Annotations[key])
			}
		}
		golden.Require(t, filepath.Join("testdata", "predefined-"+arch+".golden"), out.String())
	}
}

// external are the predefined drivers that are not built in.
func external(arch string) []v3.NodeDriver {
	return slices.DeleteFunc(predefined(arch), func(nd v3.NodeDriver) bool { return nd.Spec.Builtin })
}

// Every address is one a Job can reach without a login, over TLS, and is of one version: "latest" would break its checksum.
func TestPredefinedAddressesAreFixed(t *testing.T) {
	checksums := map[string]string{}
	for _, arch := range []string{"amd64", "arm64", "riscv64"} {
		for _, nd := range external(arch) {
			address, err := url.Parse(nd.Spec.URL)
			require.NoError(t, err)
			require.Equal(t, "https", address.Scheme, nd.Name)
			require.Nil(t, address.User, nd.Name)
			require.Empty(t, address.RawQuery, nd.Name)
			require.Regexp(t, `[0-9]+[.][0-9]+|/[0-9]+/`, address.Path, "%s: no version in the address", nd.Name)
			require.NotContains(t, address.Path, "latest", nd.Name)
			kind, err := ChecksumKind(nd.Spec.Checksum)
			require.NoError(t, err)
			require.Equal(t, "sha256", kind, nd.Name)
			if other, ok := checksums[nd.Spec.Checksum]; ok {
				require.Equal(t, other, nd.Spec.URL, "two addresses with one checksum")
			}
			checksums[nd.Spec.Checksum] = nd.Spec.URL
			require.False(t, nd.Spec.InsecureSkipChecksum)
			require.False(t, nd.Spec.Active, "nothing is downloaded before someone asks for it")
		}
	}
}

// Each architecture gets its own binary where there is one, and otherwise one whose description says what it is for.
func TestPredefinedDriversSayWhatTheyAreFor(t *testing.T) {
	own := map[string]bool{}
	byName := func(arch string) map[string]v3.NodeDriver {
		out := map[string]v3.NodeDriver{}
		for _, nd := range external(arch) {
			out[nd.Name] = nd
		}
		return out
	}
	amd64, arm64, other := byName("amd64"), byName("arm64"), byName("s390x")
	require.Equal(t, amd64, other)
	for name, nd := range amd64 {
		own[name] = nd.Spec.URL != arm64[name].Spec.URL
		require.Equal(t, own[name], nd.Spec.Checksum != arm64[name].Spec.Checksum, name)
		require.Equal(t, own[name], !strings.Contains(nd.Spec.Description, "amd64 only"), name)
		if own[name] {
			require.Contains(t, arm64[name].Spec.URL, "arm64")
			require.Contains(t, nd.Spec.URL, "amd64")
		}
	}
	require.True(t, own["harvester"] && own["linode"])
}

// Names in archives as publishers and attackers write them, and which of them is the driver.
func TestMembersRecognisesTheDriver(t *testing.T) {
	for name, want := range map[string]bool{
		"docker-machine-driver-acme":                  true,
		"./docker-machine-driver-acme":                true,
		"bin/linux/docker-machine-driver-acme":        true,
		`bin\docker-machine-driver-acme`:              true,
		"docker-machine-driver-acme_v1.2.3":           true,
		"docker-machine-driver-acme-linux-amd64":      true,
		"docker-machine-driver-acme.linux":            true,
		"docker-machine-driver-acme.exe":              false,
		"docker-machine-driver-acme.md":               false,
		"docker-machine-driver-acme_checksums.txt":    false,
		"docker-machine-driver-acme.tar.gz.sha256sum": false,
		"docker-machine-driver-acme-sbom.json":        false,
		"docker-machine-driver-acme.pem":              false,
		"docker-machine-driver-acmeextra":             false,
		"docker-machine-driver-":                      false,
		"Docker-Machine-Driver-Acme":                  false,
		"docker-machine-driver-other":                 false,
		"acme":                                        false,
		"docker-machine-driver-acme/README":           false,
		"":                                            false,
		".":                                           false,
		"//docker-machine-driver-acme":                false,
		"a/..":                                        false,
		"docker-machine-driver-acme\x00":              false,
	} {
		seen := members{want: "acme"}
		got, err := seen.add(name)
		if strings.HasPrefix(name, "//") {
			require.EqualError(t, err, `the archive has a member outside its root: "//docker-machine-driver-acme"`)
			continue
		}
		require.NoError(t, err, "%q", name)
		require.Equal(t, want, got, "%q", name)
	}
}

// The list of what else looked like a driver is short and readable, whatever the archive is called.
func TestMembersNamesWhatElseThereIs(t *testing.T) {
	seen := members{want: "acme"}
	for _, name := range []string{"docker-machine-driver-a\x1b[31m", "docker-machine-driver-" + strings.Repeat("b", 500), "docker-machine-driver-c",
		"docker-machine-driver-\xff", "docker-machine-driver-e", "docker-machine-driver-f", "docker-machine-driver-g"} {
		_, err := seen.add(name)
		require.NoError(t, err)
	}
	require.EqualError(t, seen.notFound(), `the archive has no docker-machine-driver-acme but "docker-machine-driver-a\x1b[31m", "docker-machine-driver-`+
		strings.Repeat("b", 78)+`"…, "docker-machine-driver-c", "docker-machine-driver-\xff", "docker-machine-driver-e": set spec.displayName to the driver's own name`)
}
