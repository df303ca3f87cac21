package driver_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
)

func TestPredefinedDriversAreValid(t *testing.T) {
	names := map[string]bool{}
	driverNames := map[string]bool{}
	for _, nd := range driver.Predefined() {
		warnings, err := driver.Validate(&nd)
		require.NoError(t, err, nd.Name)
		require.Empty(t, warnings, nd.Name)
		require.False(t, names[nd.Name], "%s is there twice", nd.Name)
		require.False(t, driverNames[nd.DriverName()], "%s is there twice", nd.DriverName())
		names[nd.Name], driverNames[nd.DriverName()] = true, true
		require.Equal(t, driver.IsBuiltin(&nd), nd.Spec.Builtin, nd.Name)
		require.NotEmpty(t, nd.Spec.Description, nd.Name)
	}
	for _, name := range driver.BuiltinNames() {
		require.True(t, names[name], "%s is built in but not predefined", name)
	}
}

// paths are the words by which a flag tells that it may name a file.
var paths = regexp.MustCompile(`(?i)path|file|folder|\bdir|url|iso\b|json|import|user-?data|custom-data|\bcloud-?(init|config)`)

// noFiles are the flags with such words that make the driver open no file of a Job's pod, and why.
func noFiles() map[string]string {
	const endpoint, cloud = "an address that the driver calls", "a name or path at the cloud"
	return map[string]string{
		"amazonec2-keypair-name": cloud, "amazonec2-iam-instance-profile": cloud, "exoscale-instance-profile": cloud,
		"amazonec2-endpoint": endpoint, "exoscale-url": endpoint, "google-machine-image": cloud, "openstack-auth-url": endpoint,
		"google-auth-encoded-json": "takes the content, see crdgen",
		"openstack-endpoint-type":  "a word", "rackspace-endpoint-type": "a word", "openstack-volume-device-path": "a device of the server",
		"url": "the drivers none and noop do nothing", "virtualbox-share-folder": notThere, "virtualbox-import-boot2docker-vm": notThere,
		"vmwarevsphere-folder": cloud, "vmwarevsphere-vapp-transport": "a word",
	}
}

const notThere = "needs a hypervisor, which no Job has"

// TestNoFlagNamesAFileOfOurs: a user's path would be one of the Job's pod, where the request lies with the credential. What
// may be a path is given as content, or must be an address. A new flag of rancher/machine fails here until somebody looked.
func TestNoFlagNamesAFileOfOurs(t *testing.T) {
	known, seen := noFiles(), map[string]bool{}
	for _, nd := range driver.Predefined() {
		flags, ok := driver.Builtin(nd.Name)
		if !ok {
			continue
		}
		rules, err := crdgen.RulesFromAnnotations(nd.Annotations)
		require.NoError(t, err)
		fields, err := crdgen.FieldsOf(nd.Name, flags, rules)
		require.NoError(t, err)
		for i, field := range fields {
			isText := field.Type == crdgen.String || field.Type == crdgen.StringSlice
			if !isText || !paths.MatchString(field.Flag+" "+flags[i].Usage) || field.File || crdgen.OnlyURL(field.Flag) {
				continue
			}
			require.Contains(t, known, field.Flag, "%s: does the driver read a file of that name? %s", nd.Name, flags[i].Usage)
			seen[field.Flag] = true
		}
	}
	require.Len(t, seen, len(known), "listed, but no such flag")
}

func TestBuiltinFlagsAreReadable(t *testing.T) {
	require.Len(t, driver.BuiltinNames(), 17)
	for _, name := range driver.BuiltinNames() {
		flags, ok := driver.Builtin(name)
		require.True(t, ok, name)
		require.NoError(t, crdgen.CheckFlags(flags), name)
	}
	_, ok := driver.Builtin("acme")
	require.False(t, ok)
	require.Regexp(t, `^v\d`, driver.MachineVersion)
}
