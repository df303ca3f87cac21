package words_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/e2e/vcenter"
)

// TestClassify_vCenter asks a simulated vCenter with the driver's library for what is not there, and with a wrong password.
func TestClassify_vCenter(t *testing.T) {
	s, err := vcenter.Start(t.Context(), vcenter.Options{Username: "u@vsphere.local", Password: "right-password"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	_, err = govmomi.NewClient(t.Context(), sdkAddress(s, url.UserPassword("u@vsphere.local", "wrong")), true)
	requireClass(t, "vmwarevsphere", rkev1.ClassUnauthorized, err, false)

	_, err = govmomi.NewClient(t.Context(), sdkAddress(s, url.UserPassword("u@vsphere.local", "right-password")), false)
	requireClass(t, "vmwarevsphere", rkev1.ClassInvalid, err, false)

	client, err := govmomi.NewClient(t.Context(), sdkAddress(s, url.UserPassword("u@vsphere.local", "right-password")), true)
	require.NoError(t, err)
	finder := find.NewFinder(client.Client, true)
	for name, look := range missing(finder) {
		t.Run(name, func(t *testing.T) {
			requireClass(t, "vmwarevsphere", rkev1.ClassInvalid, look(t.Context()), name == "virtual machine")
		})
	}
}

func sdkAddress(s *vcenter.Simulator, user *url.Userinfo) *url.URL {
	return &url.URL{Scheme: "https", Host: s.Address(), Path: "/sdk", User: user}
}

// missing looks for things that the simulated vCenter has not, in the way of the driver: first the data centre.
func missing(finder *find.Finder) map[string]func(context.Context) error {
	within := func(ctx context.Context, look func() error) error {
		center, err := finder.DefaultDatacenter(ctx)
		if err != nil {
			return err
		}
		finder.SetDatacenter(center)
		return look()
	}
	return map[string]func(context.Context) error{
		"data centre": func(ctx context.Context) error { _, err := finder.Datacenter(ctx, "none"); return err },
		"virtual machine": func(ctx context.Context) error {
			return within(ctx, func() error { _, err := finder.VirtualMachine(ctx, "none"); return err })
		},
		"datastore": func(ctx context.Context) error {
			return within(ctx, func() error { _, err := finder.Datastore(ctx, "none"); return err })
		},
		"network": func(ctx context.Context) error {
			return within(ctx, func() error { _, err := finder.Network(ctx, "none"); return err })
		},
		"folder": func(ctx context.Context) error {
			return within(ctx, func() error { _, err := finder.Folder(ctx, "none"); return err })
		},
		"resource pool": func(ctx context.Context) error {
			return within(ctx, func() error { _, err := finder.ResourcePool(ctx, "none"); return err })
		},
	}
}

func requireClass(t *testing.T, driver, class string, err error, gone bool) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, class, clouds.Of(driver).Classify(err.Error()), "%s", err)
	require.Equal(t, gone, clouds.Of(driver).IsGone(err.Error()), "%s", err)
}

// TestClassify_vSphere_faults are faults of tasks, which say their message, and of calls, whose message is often left out, so that
// the library says the fault's name.
func TestClassify_vSphere_faults(t *testing.T) {
	// vCenter's messages, in its English, with the types of the faults; a message in parentheses is none.
	for class, faults := range map[string]map[string]types.BaseMethodFault{
		rkev1.ClassUnauthorized: {
			"Cannot complete login due to an incorrect user name or password.": &types.InvalidLogin{},
			"Permission to perform this operation was denied.":                 &types.NoPermission{},
			"The session is not authenticated.":                                &types.NotAuthenticated{},
		},
		rkev1.ClassQuota: {
			"There are not enough licenses installed to perform the operation.": &types.NotEnoughLicenses{},
		},
		rkev1.ClassCapacity: {
			"The available Memory resources in the parent resource pool are insufficient for the operation.": &types.InsufficientMemoryResourcesFault{},
			"The host does not have sufficient CPU resources. Insufficient resources.":                       &types.InsufficientCpuResourcesFault{},
			"Insufficient resources to satisfy configured failover level for vSphere HA.":                    &types.InsufficientFailoverResourcesFault{},
			"Insufficient disk space on datastore 'ds1'.":                                                    &types.InsufficientStorageSpace{},
		},
		rkev1.ClassTransient: {
			"Another task is already in progress.":                                    &types.TaskInProgress{},
			"The operation is not allowed in the current state.":                      &types.InvalidState{},
			"(an attempt to power on what runs)":                                      &types.InvalidPowerState{},
			"Cannot communicate with the host, it is not connected. Host is missing.": &types.HostNotConnected{},
			"Failed to lock the file":                                                 &types.FileLocked{},
		},
		rkev1.ClassInvalid: {
			"The name 'm1' already exists.":                                                   &types.DuplicateName{},
			"A specified parameter was not correct: spec.location.datastore":                  &types.InvalidArgument{},
			"Invalid configuration for device '0'.":                                           &types.InvalidDeviceSpec{},
			"Current license or ESXi version prohibits execution of the requested operation.": &types.RestrictedVersion{},
			"Invalid datastore path '[none] x'.":                                              &types.InvalidDatastorePath{},
			"The operation is not supported on the object.":                                   &types.NotSupported{},
		},
	} {
		for message, fault := range faults {
			if message != "" && message[0] != '(' {
				failed := task.Error{LocalizedMethodFault: &types.LocalizedMethodFault{Fault: fault, LocalizedMessage: message}}
				requireClass(t, "vmwarevsphere", class, failed, false)
				said := &soap.Fault{Code: "ServerFaultCode", String: message}
				requireClass(t, "vmwarevsphere", class, soap.WrapSoapFault(said), false)
			}
			requireClass(t, "vmwarevsphere", class, soap.WrapVimFault(fault), false)
		}
	}
}
