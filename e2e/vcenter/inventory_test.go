package vcenter_test

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/drover-project/drover/e2e/vcenter"
	"github.com/drover-project/drover/jobrunner/operation/isoimage"
)

const (
	patience = time.Minute
	tick     = 5 * time.Millisecond
)

// inventory is an administrator's view of a simulator.
type inventory struct {
	client *govmomi.Client
	finder *find.Finder
}

func openInventory(t *testing.T, s *vcenter.Simulator) *inventory {
	t.Helper()
	at := s.Endpoint()
	where := &url.URL{Scheme: "https", Host: at.Address, Path: "/sdk", User: url.UserPassword(at.Username, at.Password)}
	client, err := govmomi.NewClient(t.Context(), where, true)
	require.NoError(t, err)
	return &inventory{client: client, finder: find.NewFinder(client.Client)}
}

// clone makes a virtual machine from the template into a folder, switched off.
func (i *inventory) clone(t *testing.T, folder, name string, change ...types.BaseVirtualDeviceConfigSpec) *object.VirtualMachine {
	t.Helper()
	ctx := t.Context()
	template, err := i.finder.VirtualMachine(ctx, "/"+vcenter.Datacenter+"/vm/"+vcenter.Template)
	require.NoError(t, err)
	into, err := i.finder.Folder(ctx, "/"+vcenter.Datacenter+"/vm"+folder)
	require.NoError(t, err)
	pool, err := i.finder.ResourcePool(ctx, vcenter.Pool)
	require.NoError(t, err)
	where := pool.Reference()
	task, err := template.Clone(ctx, into, name, types.VirtualMachineCloneSpec{Location: types.VirtualMachineRelocateSpec{Pool: &where}})
	require.NoError(t, err)
	info, err := task.WaitForResult(ctx)
	require.NoError(t, err)
	vm := object.NewVirtualMachine(i.client.Client, info.Result.(types.ManagedObjectReference))
	if len(change) > 0 {
		wait(t)(vm.Reconfigure(ctx, types.VirtualMachineConfigSpec{DeviceChange: change}))
	}
	return vm
}

// wait waits for a task.
func wait(t *testing.T) func(*object.Task, error) {
	t.Helper()
	return func(task *object.Task, err error) {
		t.Helper()
		require.NoError(t, err)
		require.NoError(t, task.Wait(t.Context()))
	}
}

// drive is a CD drive with an image in it.
func drive(key int32, file string) types.BaseVirtualDeviceConfigSpec {
	return &types.VirtualDeviceConfigSpec{
		Operation: types.VirtualDeviceConfigSpecOperationAdd,
		Device: &types.VirtualCdrom{VirtualDevice: types.VirtualDevice{
			Key: key, ControllerKey: 200, Backing: &types.VirtualCdromIsoBackingInfo{
				VirtualDeviceFileBackingInfo: types.VirtualDeviceFileBackingInfo{FileName: file},
			},
		}},
	}
}

// upload puts a file on the datastore and returns its name there.
func (i *inventory) upload(t *testing.T, name string, content []byte) string {
	t.Helper()
	store, err := i.finder.Datastore(t.Context(), "/"+vcenter.Datacenter+"/datastore/"+vcenter.Datastore)
	require.NoError(t, err)
	upload := soap.DefaultUpload
	upload.ContentLength = int64(len(content))
	require.NoError(t, store.Upload(t.Context(), strings.NewReader(string(content)), name, &upload))
	return "[" + vcenter.Datastore + "] " + name
}

// image is a CD image with the files, as the driver packs it.
func image(t *testing.T, files map[string]string) []byte {
	t.Helper()
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "seed.iso")
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	require.NoError(t, isoimage.Command([]string{"-joliet", "-volid", "cidata", "-output", out, dir}, time.Unix(1e9, 0)))
	content, err := os.ReadFile(out)
	require.NoError(t, err)
	return content
}

func machine(t *testing.T, s *vcenter.Simulator, name string) vcenter.Machine {
	t.Helper()
	machines, err := vcenter.List(t.Context(), s.Endpoint())
	require.NoError(t, err)
	for _, machine := range machines {
		if machine.Name == name {
			return machine
		}
	}
	return vcenter.Machine{}
}

func TestGuestIsSeededFromWhereverTheSeedIs(t *testing.T) {
	guests := &vcenter.Addresses{}
	s := start(t, guests)
	i := openInventory(t, s)
	seed := i.upload(t, "seed.iso", image(t, map[string]string{"user-data": "#!/bin/sh\n", "meta-data": "a: b\n", "other": "x"}))
	boot := i.upload(t, "boot.iso", make([]byte, 4096))
	for name, test := range map[string]struct {
		change []types.BaseVirtualDeviceConfigSpec
		want   vcenter.Seed
	}{
		"none":         {nil, vcenter.Seed{}},
		"on-a-cd":      {[]types.BaseVirtualDeviceConfigSpec{drive(-1, seed)}, vcenter.Seed{UserData: "#!/bin/sh\n", MetaData: "a: b\n"}},
		"boot-image":   {[]types.BaseVirtualDeviceConfigSpec{drive(-1, boot)}, vcenter.Seed{}},
		"second-drive": {[]types.BaseVirtualDeviceConfigSpec{drive(-1, boot), drive(-2, seed)}, vcenter.Seed{UserData: "#!/bin/sh\n", MetaData: "a: b\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			vm := i.clone(t, "", name, test.change...)
			wait(t)(vm.PowerOn(t.Context()))
			require.Eventually(t, func() bool { return machine(t, s, name).Address != "" }, patience, tick)
			require.Equal(t, test.want, guests.Seed(name))
			require.NoError(t, vcenter.Destroy(t.Context(), s.Endpoint(), name))
		})
	}
}

func TestGuestIsSeededFromGuestInfo(t *testing.T) {
	guests := &vcenter.Addresses{}
	s := start(t, guests)
	vm := openInventory(t, s).clone(t, "", "one")
	wait(t)(vm.Reconfigure(t.Context(), types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{
		&types.OptionValue{Key: "guestinfo.other", Value: "x"},
		&types.OptionValue{Key: "guestinfo.cloud-init.config.data", Value: base64.StdEncoding.EncodeToString([]byte("#cloud-config\n"))},
	}}))
	wait(t)(vm.PowerOn(t.Context()))
	require.Eventually(t, func() bool { return machine(t, s, "one").Address != "" }, patience, tick)
	require.Equal(t, vcenter.Seed{UserData: "#cloud-config\n"}, guests.Seed("one"))
}

// logged takes what a simulator logs.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

func startLogged(t *testing.T, guests vcenter.Guests) (*vcenter.Simulator, *logged) {
	t.Helper()
	log := &logged{}
	s, err := vcenter.Start(t.Context(), vcenter.Options{Username: username, Password: password, Guests: guests, Log: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s, log
}

func TestSeedsThatCannotBeReadStartNoGuest(t *testing.T) {
	guests := &vcenter.Addresses{}
	s, log := startLogged(t, guests)
	i := openInventory(t, s)
	for name, test := range map[string]struct {
		file, data string
		want       string
	}{
		"no-base64":    {"", "marker-%%%", "reading the cloud-init seed of no-base64: illegal base64 data"},
		"no-datastore": {"[Atlantis] seed.iso", "", "reading the cloud-init seed of no-datastore: finding datastore Atlantis: "},
		"no-file":      {"[" + vcenter.Datastore + "] missing.iso", "", "reading the cloud-init seed of no-file: downloading [LocalDS_0] missing.iso: "},
	} {
		t.Run(name, func(t *testing.T) {
			vm := i.clone(t, "", name)
			if test.file != "" {
				changed, err := vm.Reconfigure(t.Context(), types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{drive(-1, test.file)}})
				require.NoError(t, err)
				if changed.Wait(t.Context()) != nil {
					t.Skip("the simulator does not even take such a drive")
				}
			}
			if test.data != "" {
				wait(t)(vm.Reconfigure(t.Context(), types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{
					&types.OptionValue{Key: "guestinfo.cloud-init.config.data", Value: test.data},
				}}))
			}
			wait(t)(vm.PowerOn(t.Context()))
			require.Eventually(t, func() bool { return log.has(test.want) }, patience, tick)
			require.Empty(t, machine(t, s, name).Address)
			require.False(t, log.has("marker"))
		})
	}
}

// moody are guests that do not start as often as they are told to.
type moody struct {
	recorder
	failures int
}

func (m *moody) Start(ctx context.Context, name string, seed vcenter.Seed) (netip.Addr, error) {
	m.mu.Lock()
	m.failures--
	fails := m.failures >= 0
	m.mu.Unlock()
	if fails {
		return netip.Addr{}, errors.New("no address is free")
	}
	return m.recorder.Start(ctx, name, seed)
}

func (m *moody) ended() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string{}, m.stopped...)
}

func TestGuestFollowsPower(t *testing.T) {
	guests := &moody{failures: 1}
	s, log := startLogged(t, guests)
	vm := openInventory(t, s).clone(t, "", "one")
	require.Equal(t, "poweredOff", machine(t, s, "one").Power)
	wait(t)(vm.PowerOn(t.Context()))
	require.Eventually(t, func() bool { return log.has("starting the guest of one: no address is free") }, patience, tick)
	require.Empty(t, machine(t, s, "one").Address)
	wait(t)(vm.PowerOff(t.Context()))
	require.Empty(t, guests.ended(), "there was none to stop")

	for round, address := range []string{"198.18.250.1", "198.18.250.2"} {
		wait(t)(vm.PowerOn(t.Context()))
		require.Eventually(t, func() bool { return machine(t, s, "one").Address == address }, patience, tick)
		require.Equal(t, "poweredOn", machine(t, s, "one").Power)
		wait(t)(vm.PowerOff(t.Context()))
		require.Eventually(t, func() bool { return len(guests.ended()) == round+1 }, patience, tick)
	}
}

func TestDestroyFindsMachinesInAnyFolder(t *testing.T) {
	s := start(t, nil)
	i := openInventory(t, s)
	root, err := i.finder.Folder(t.Context(), "/"+vcenter.Datacenter+"/vm")
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		_, err = root.CreateFolder(t.Context(), name)
		require.NoError(t, err)
	}
	i.clone(t, "/a", "deep")
	i.clone(t, "/a", "twin")
	i.clone(t, "/b", "twin")
	on := i.clone(t, "", "on")
	wait(t)(on.PowerOn(t.Context()))
	require.Equal(t, []string{"deep", "on", "twin", "twin"}, names(t, s))
	for name, want := range map[string]string{
		"nowhere":        `finding "nowhere": 0 virtual machines have that name`,
		"":               `finding "": 0 virtual machines have that name`,
		"*":              `finding "*": 0 virtual machines have that name`,
		"a/deep":         `finding "a/deep": 0 virtual machines have that name`,
		"twin":           `finding "twin": 2 virtual machines have that name`,
		vcenter.Template: `finding "debian-12": 0 virtual machines have that name`,
	} {
		require.EqualError(t, vcenter.Destroy(t.Context(), s.Endpoint(), name), want)
	}
	require.NoError(t, vcenter.Destroy(t.Context(), s.Endpoint(), "deep"))
	require.NoError(t, vcenter.Destroy(t.Context(), s.Endpoint(), "on"))
	require.Equal(t, []string{"twin", "twin"}, names(t, s))
	_, err = i.finder.VirtualMachine(t.Context(), "/"+vcenter.Datacenter+"/vm/"+vcenter.Template)
	require.NoError(t, err, "the template is still there")
}

func TestListTellsWhatVCenterKnows(t *testing.T) {
	s := start(t, nil)
	i := openInventory(t, s)
	machines, err := vcenter.List(t.Context(), s.Endpoint())
	require.NoError(t, err)
	require.Empty(t, machines, "the template is no machine")
	vm := i.clone(t, "", "b")
	i.clone(t, "", "a")
	wait(t)(vm.PowerOn(t.Context()))
	require.Eventually(t, func() bool { return machine(t, s, "b").Address != "" }, patience, tick)
	machines, err = vcenter.List(t.Context(), s.Endpoint())
	require.NoError(t, err)
	require.Len(t, machines, 2)
	require.Equal(t, "a", machines[0].Name)
	require.Equal(t, "poweredOff", machines[0].Power)
	require.Empty(t, machines[0].Address)
	require.Equal(t, vcenter.Machine{Name: "b", UUID: vm.UUID(t.Context()), Power: "poweredOn", Address: "198.18.250.1"}, machines[1])
	require.NotEqual(t, machines[0].UUID, machines[1].UUID)
}

func TestOnlyTheGivenLoginIsLetIn(t *testing.T) {
	s := start(t, nil)
	for name, change := range map[string]func(*vcenter.Endpoint){
		"password": func(e *vcenter.Endpoint) { e.Password = "marker-wrong" },
		"user":     func(e *vcenter.Endpoint) { e.Username = "root" },
		"none":     func(e *vcenter.Endpoint) { e.Username, e.Password = "", "" },
	} {
		t.Run(name, func(t *testing.T) {
			at := s.Endpoint()
			change(&at)
			_, err := vcenter.List(t.Context(), at)
			require.ErrorContains(t, err, "logging in to "+at.Address+": ")
			require.NotContains(t, err.Error(), "marker")
			require.Error(t, vcenter.Destroy(t.Context(), at, "x"))
		})
	}
	nobody := vcenter.Endpoint{Address: "127.0.0.1:1", Username: "me", Password: "marker-secret"}
	_, err := vcenter.List(t.Context(), nobody)
	require.ErrorContains(t, err, "logging in to 127.0.0.1:1: ")
	require.ErrorContains(t, err, "connection refused")
	require.NotContains(t, err.Error(), "marker")
}

func TestStartRefusesWhatItCannotServe(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	for name, test := range map[string]struct {
		opts vcenter.Options
		want string
	}{
		"no user":     {vcenter.Options{Password: "x"}, "a vCenter needs a username and a password"},
		"no password": {vcenter.Options{Username: "x"}, "a vCenter needs a username and a password"},
		"taken":       {vcenter.Options{Username: "x", Password: "marker", Listen: taken.Addr().String()}, "listening on " + taken.Addr().String() + ": httptest: failed to listen"},
		"no port":     {vcenter.Options{Username: "x", Password: "marker", Listen: "localhost"}, "listening on localhost: "},
		"not ours":    {vcenter.Options{Username: "x", Password: "marker", Listen: "203.0.113.1:0"}, "listening on 203.0.113.1:0: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := vcenter.Start(t.Context(), test.opts)
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, err.Error(), "marker")
		})
	}
	s := start(t, nil)
	require.Empty(t, names(t, s), "the next one starts all the same")
}
