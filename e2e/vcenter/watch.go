package vcenter

import (
	"context"
	"fmt"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/types"
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
		wanted = change.Name == powerState && change.Val == types.VirtualMachinePowerStatePoweredOn
	}
	name, runs := running[update.Obj]
	switch {
	case update.Kind == types.ObjectUpdateKindLeave || (!wanted && len(update.ChangeSet) > 0):
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
	s.report(ref, address.String())
	return name, nil
}
