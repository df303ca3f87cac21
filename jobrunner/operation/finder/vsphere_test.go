package finder

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/e2e/vcenter"
	"github.com/drover-project/drover/jobrunner"
)

const vCenterUser, vCenterPassword = "drover@vsphere.local", `p<&"w`

// inventory is a simulated vCenter and an administrator's way into it.
type inventory struct {
	*testing.T
	values map[string]any
	client *govmomi.Client
	finder *find.Finder
}

func newInventory(t *testing.T) *inventory {
	t.Helper()
	s, err := vcenter.Start(t.Context(), vcenter.Options{Username: vCenterUser, Password: vCenterPassword})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	host, port, err := net.SplitHostPort(s.Address())
	require.NoError(t, err)
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	address := &url.URL{Scheme: "https", Host: s.Address(), Path: "/sdk", User: url.UserPassword(vCenterUser, vCenterPassword)}
	client, err := govmomi.NewClient(t.Context(), address, true)
	require.NoError(t, err)
	finder := find.NewFinder(client.Client)
	datacenter, err := finder.Datacenter(t.Context(), vcenter.Datacenter)
	require.NoError(t, err)
	finder.SetDatacenter(datacenter)
	return &inventory{T: t, client: client, finder: finder, values: map[string]any{
		"vmwarevsphere-vcenter": host, "vmwarevsphere-vcenter-port": number,
		"vmwarevsphere-username": vCenterUser, "vmwarevsphere-password": vCenterPassword,
	}}
}

// clone makes a virtual machine with the parameters that the driver's flag would set.
func (i *inventory) clone(name string, on bool, tags map[string]string) *object.VirtualMachine {
	i.Helper()
	vm := i.cloneOf(vcenter.Template, name, on)
	i.tag(vm, tags)
	return vm
}

func (i *inventory) cloneOf(source, name string, on bool) *object.VirtualMachine {
	i.Helper()
	ctx := i.Context()
	template, err := i.finder.VirtualMachine(ctx, source)
	require.NoError(i, err)
	folder, err := i.finder.DefaultFolder(ctx)
	require.NoError(i, err)
	pool, err := i.finder.ResourcePool(ctx, vcenter.Pool)
	require.NoError(i, err)
	cloning, err := template.Clone(ctx, folder, name, types.VirtualMachineCloneSpec{
		Location: types.VirtualMachineRelocateSpec{Pool: new(pool.Reference())}, PowerOn: on})
	require.NoError(i, err)
	require.NoError(i, cloning.Wait(ctx))
	vm, err := i.finder.VirtualMachine(ctx, name)
	require.NoError(i, err)
	return vm
}

func (i *inventory) tag(vm *object.VirtualMachine, tags map[string]string) {
	i.Helper()
	var options []types.BaseOptionValue
	for key, value := range tags {
		options = append(options, &types.OptionValue{Key: clouds.Of(vSphereName).Tags.Key(key), Value: value})
	}
	changing, err := vm.Reconfigure(i.Context(), types.VirtualMachineConfigSpec{ExtraConfig: options})
	require.NoError(i, err)
	require.NoError(i, changing.Wait(i.Context()))
}

func (i *inventory) lister() *ByTag { return ListerFor(vSphereName, i.values) }

func (i *inventory) there(name string) bool {
	_, err := i.finder.VirtualMachine(context.WithoutCancel(i.Context()), name)
	return err == nil
}

func machineTags(uid string) map[string]string {
	return jobrunner.Tags(jobrunner.MachineRef{Namespace: "team", Name: "pool-1", UID: uid, ClusterName: "c1", ClusterUID: "c-uid"})
}

func TestVSphere_List(t *testing.T) {
	i := newInventory(t)
	began := time.Now().Add(-time.Minute)
	vm := i.clone("pool-1", true, machineTags("m-uid"))
	i.clone("somebody-else", true, map[string]string{"mine": "yes"})
	i.clone("half", false, map[string]string{jobrunner.TagClusterUID: "c-uid"})
	template := i.clone("tagged-template", false, machineTags("t-uid"))
	require.NoError(t, template.MarkAsTemplate(t.Context()))

	found, err := i.lister().List(t.Context())
	require.NoError(t, err)
	require.Len(t, found, 1, "templates, half a tag and what is another's are not listed")
	uuid := vm.UUID(t.Context())
	require.Equal(t, uuid, found[0].ID)
	require.Equal(t, "pool-1", found[0].Name)
	require.Equal(t, machineTags("m-uid"), found[0].Tags)
	require.Equal(t, map[string]any{"MachineId": uuid, "MachineName": "pool-1"}, found[0].Record)
	require.True(t, found[0].Created.After(began), "%s", found[0].Created)

	i.values["vmwarevsphere-datacenter"] = vcenter.Datacenter
	inside, err := i.lister().List(t.Context())
	require.NoError(t, err)
	require.Equal(t, found, inside)
}

// Somebody's clone of a machine's server has the tags too. Who judges tells it by its name and its ID. The simulator leaves the
// parameters out of a clone, which vCenter does not.
func TestVSphere_List_clones(t *testing.T) {
	i := newInventory(t)
	vm := i.clone("pool-1", false, machineTags("m-uid"))
	clone := i.cloneOf("pool-1", "pool-1-before-the-upgrade", false)
	i.tag(clone, machineTags("m-uid"))
	found, err := i.lister().List(t.Context())
	require.NoError(t, err)
	listed := map[string]string{}
	for _, server := range found {
		require.Equal(t, machineTags("m-uid"), server.Tags)
		listed[server.ID] = server.Name
	}
	require.Equal(t, map[string]string{vm.UUID(t.Context()): "pool-1", clone.UUID(t.Context()): "pool-1-before-the-upgrade"}, listed)
}

func TestVSphere_List_fails(t *testing.T) {
	for name, c := range map[string]struct {
		flag  string
		value any
		want  string
	}{
		"no such datacenter": {"vmwarevsphere-datacenter", "DC9", "looking for datacenter DC9"},
		"a wrong password":   {"vmwarevsphere-password", "wrong", "logging in to vCenter"},
		"no vCenter":         {"vmwarevsphere-vcenter", "", "no vCenter is set"},
		"nobody listens":     {"vmwarevsphere-vcenter-port", 1, "connecting to vCenter"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newInventory(t)
			i.values[c.flag] = c.value
			found, err := i.lister().List(t.Context())
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), vCenterPassword)
			require.Empty(t, found)
		})
	}
}

func TestVSphere_Remove(t *testing.T) {
	for name, on := range map[string]bool{"running": true, "powered off": false} {
		t.Run(name, func(t *testing.T) {
			i := newInventory(t)
			i.clone("pool-1", on, machineTags("m-uid"))
			i.clone("pool-2", on, machineTags("other"))
			found, err := i.lister().List(t.Context())
			require.NoError(t, err)
			require.Len(t, found, 2)
			target := found[0]
			if target.Tags[jobrunner.TagMachineUID] != "m-uid" {
				target = found[1]
			}
			require.NoError(t, i.lister().Remove(t.Context(), target))
			require.False(t, i.there("pool-1"))
			require.True(t, i.there("pool-2"))
			require.NoError(t, i.lister().Remove(t.Context(), target), "gone is gone")
		})
	}
}

// What somebody has given another tag since it was listed is not ours any more.
func TestVSphere_Remove_looksAgain(t *testing.T) {
	i := newInventory(t)
	vm := i.clone("pool-1", false, machineTags("m-uid"))
	found, err := i.lister().List(t.Context())
	require.NoError(t, err)
	i.tag(vm, map[string]string{jobrunner.TagMachineUID: "another"})
	require.ErrorContains(t, i.lister().Remove(t.Context(), found[0]), "no longer has the tag")
	i.tag(vm, map[string]string{jobrunner.TagMachineUID: ""})
	require.ErrorContains(t, i.lister().Remove(t.Context(), found[0]), "no longer has the tag")
	require.True(t, i.there("pool-1"))
}
