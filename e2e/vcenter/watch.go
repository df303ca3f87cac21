package vcenter

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/drover-project/drover/jobrunner/operation/isoimage"
)

const powerState = "runtime.powerState"

// watch starts and stops guests as virtual machines come, are powered on and off, and go.
func (s *Simulator) watch(ctx context.Context) {
	client := s.client.Client
	machines, err := view.NewManager(client).CreateContainerView(ctx, client.ServiceContent.RootFolder, []string{"VirtualMachine"}, true)
	if err != nil {
		s.opts.Log.Error("watching virtual machines", "error", err)
		return
	}
	filter := new(property.WaitFilter).Add(machines.Reference(), "VirtualMachine", []string{powerState}, machines.TraversalSpec())
	running := map[types.ManagedObjectReference]string{}
	err = property.WaitForUpdates(ctx, property.DefaultCollector(client), filter, func(updates []types.ObjectUpdate) bool {
		for _, update := range updates {
			if err := s.follow(ctx, running, update); err != nil && ctx.Err() == nil {
				s.opts.Log.Error("following a virtual machine", "machine", update.Obj.Value, "error", err)
			}
		}
		return false
	})
	if err != nil && ctx.Err() == nil {
		s.opts.Log.Error("watching virtual machines", "error", err)
	}
}

func (s *Simulator) follow(ctx context.Context, running map[types.ManagedObjectReference]string, update types.ObjectUpdate) error {
	wanted := false
	for _, change := range update.ChangeSet {
		wanted = change.Val == types.VirtualMachinePowerStatePoweredOn
	}
	name, runs := running[update.Obj]
	switch {
	case update.Kind == types.ObjectUpdateKindLeave, !wanted && len(update.ChangeSet) > 0:
		if !runs {
			return nil
		}
		delete(running, update.Obj)
		s.opts.Log.Info("stopping the guest", "machine", name)
		return s.opts.Guests.Stop(ctx, name)
	case wanted && !runs:
		name, err := s.boot(ctx, update.Obj)
		if name != "" {
			running[update.Obj] = name
		}
		return err
	}
	return nil
}

// boot starts the guest of a virtual machine and reports its address as VMware Tools would.
func (s *Simulator) boot(ctx context.Context, ref types.ManagedObjectReference) (string, error) {
	vm := object.NewVirtualMachine(s.client.Client, ref)
	name, err := vm.ObjectName(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the name: %w", err)
	}
	seed, err := s.readSeed(ctx, vm)
	if err != nil {
		return "", fmt.Errorf("reading the cloud-init seed of %s: %w", name, err)
	}
	s.opts.Log.Info("starting the guest", "machine", name, "userDataBytes", len(seed.UserData))
	address, err := s.opts.Guests.Start(ctx, name, seed)
	if err != nil {
		return "", fmt.Errorf("starting the guest of %s: %w", name, err)
	}
	told := address.String()
	// On every network card, since the driver waits for all.
	s.change(ref, func(vm *simulator.VirtualMachine) []types.PropertyChange {
		cards := append([]types.GuestNicInfo(nil), vm.Guest.Net...)
		for i := range cards {
			cards[i].IpAddress = []string{told}
			cards[i].IpConfig = &types.NetIpConfigInfo{IpAddress: []types.NetIpConfigInfoIpAddress{
				{IpAddress: told, PrefixLength: 16, State: string(types.NetIpConfigInfoIpAddressStatusPreferred)},
			}}
		}
		return []types.PropertyChange{
			{Name: "guest.net", Val: cards},
			{Name: "guest.ipAddress", Val: told},
			{Name: "guest.toolsRunningStatus", Val: string(types.VirtualMachineToolsRunningStatusGuestToolsRunning)},
			{Name: "summary.guest.ipAddress", Val: told},
		}
	})
	return name, nil
}

const (
	maxImage      = 8 << 20
	guestInfoData = "guestinfo.cloud-init.config.data"
)

// Seed is the cloud-init seed of a virtual machine.
type Seed struct {
	UserData, MetaData string
}

// readSeed reads the CD image that the driver put into the drive, or its guestinfo.
func (s *Simulator) readSeed(ctx context.Context, vm *object.VirtualMachine) (Seed, error) {
	var machine mo.VirtualMachine
	if err := vm.Properties(ctx, vm.Reference(), []string{"config.hardware.device", "config.extraConfig"}, &machine); err != nil {
		return Seed{}, fmt.Errorf("reading its configuration: %w", err)
	}
	for _, option := range machine.Config.ExtraConfig {
		value := option.GetOptionValue()
		if text, isText := value.Value.(string); isText && value.Key == guestInfoData {
			content, err := base64.StdEncoding.DecodeString(text)
			return Seed{UserData: string(content)}, err
		}
	}
	for _, device := range machine.Config.Hardware.Device {
		drive, isDrive := device.(*types.VirtualCdrom)
		if !isDrive {
			continue
		}
		if backing, isImage := drive.Backing.(*types.VirtualCdromIsoBackingInfo); isImage && strings.HasSuffix(backing.FileName, ".iso") {
			seed, err := s.readImage(ctx, backing.FileName)
			if err != nil || seed != (Seed{}) {
				return seed, err
			}
		}
	}
	return Seed{}, nil
}

// readImage reads a seed out of an image on a datastore, named "[datastore] path".
func (s *Simulator) readImage(ctx context.Context, name string) (Seed, error) {
	var at object.DatastorePath
	if !at.FromString(name) {
		return Seed{}, fmt.Errorf("%q is not a path on a datastore", name)
	}
	finder := find.NewFinder(s.client.Client)
	store, err := finder.Datastore(ctx, "/"+Datacenter+"/datastore/"+at.Datastore)
	if err != nil {
		return Seed{}, fmt.Errorf("finding datastore %s: %w", at.Datastore, err)
	}
	body, _, err := store.Download(ctx, at.Path, &soap.DefaultDownload)
	if err != nil {
		return Seed{}, fmt.Errorf("downloading %s: %w", name, err)
	}
	content, err := io.ReadAll(io.LimitReader(body, maxImage))
	_ = body.Close()
	if err != nil {
		return Seed{}, fmt.Errorf("downloading %s: %w", name, err)
	}
	image, err := isoimage.Read(content)
	if errors.Is(err, isoimage.ErrNotReadable) {
		// A boot image does not hold a seed.
		return Seed{}, nil
	}
	if err != nil {
		return Seed{}, fmt.Errorf("reading %s: %w", name, err)
	}
	var seed Seed
	for _, file := range image.Files {
		switch file.Name {
		case "user-data":
			seed.UserData = string(file.Content)
		case "meta-data":
			seed.MetaData = string(file.Content)
		}
	}
	return seed, nil
}
