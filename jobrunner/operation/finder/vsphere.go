package finder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

const vSphereName = "vmwarevsphere"

// vSphere finds virtual machines by the configuration parameters that the driver's flag sets. A
// guest cannot change them: their keys do not begin with guestinfo. An ID does not contain the
// datacenter.
type vSphere struct {
	wholeAccount
	nothingBeside
	host               string
	port               int
	datacenter         string
	username, password string
}

var _ cloud = (*vSphere)(nil)

// get implements cloud.
func (v *vSphere) get(ctx context.Context, server Server) (found Server, err error) {
	id := cmp.Or(server.ID, recordText(server.Record, "MachineId"))
	if id == "" {
		return Server{}, nil
	}
	err = v.onMachine(ctx, id, func(_ *object.VirtualMachine, vm mo.VirtualMachine) error {
		found = Server{ID: id, Name: vm.Name, Tags: pairTags(vSphereName, parameters(vm.Config))}
		return nil
	})
	return found, err
}

// onMachine does work on a virtual machine, unless that is gone.
func (v *vSphere) onMachine(ctx context.Context, id string, work func(*object.VirtualMachine, mo.VirtualMachine) error) error {
	return v.session(ctx, func(client *govmomi.Client) error {
		ref, err := object.NewSearchIndex(client.Client).FindByUuid(ctx, nil, id, true, nil)
		if err != nil || ref == nil {
			return err
		}
		var vm mo.VirtualMachine
		properties := []string{"name", "config.template", "config.extraConfig", "runtime.powerState"}
		err = property.DefaultCollector(client.Client).RetrieveOne(ctx, ref.Reference(), properties, &vm)
		if isGoneFault(faultOf(err)) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading virtual machine %s: %w", id, err)
		}
		return work(object.NewVirtualMachine(client.Client, ref.Reference()), vm)
	})
}

// list implements cloud.
func (v *vSphere) list(ctx context.Context, _, _ string) (found []Server, err error) {
	err = v.session(ctx, func(client *govmomi.Client) error {
		machines, err := v.machines(ctx, client)
		for i := range machines {
			vm := &machines[i]
			tags := pairTags(vSphereName, parameters(vm.Config))
			if tags == nil {
				continue
			}
			server := Server{ID: vm.Config.Uuid, Name: vm.Name, Tags: tags, Record: map[string]any{"MachineId": vm.Config.Uuid, "MachineName": vm.Name}}
			if vm.Config.CreateDate != nil {
				server.Created = *vm.Config.CreateDate
			}
			found = append(found, server)
		}
		return err
	})
	return found, err
}

// machines returns all virtual machines below the datacenter, or in the whole inventory without
// one.
func (v *vSphere) machines(ctx context.Context, client *govmomi.Client) ([]mo.VirtualMachine, error) {
	root := client.ServiceContent.RootFolder
	if v.datacenter != "" {
		datacenter, err := find.NewFinder(client.Client).Datacenter(ctx, v.datacenter)
		if err != nil {
			return nil, fmt.Errorf("looking for datacenter %s: %w", v.datacenter, err)
		}
		root = datacenter.Reference()
	}
	all, err := view.NewManager(client.Client).CreateContainerView(ctx, root, []string{"VirtualMachine"}, true)
	if err != nil {
		return nil, fmt.Errorf("looking for virtual machines: %w", err)
	}
	defer func() { _ = all.Destroy(context.WithoutCancel(ctx)) }()
	var machines []mo.VirtualMachine
	properties := []string{"name", "config.uuid", "config.template", "config.createDate", "config.extraConfig"}
	if err := all.Retrieve(ctx, []string{"VirtualMachine"}, properties, &machines); err != nil {
		return nil, fmt.Errorf("looking for virtual machines: %w", err)
	}
	return machines, nil
}

// parameters returns the configuration parameters, or none for a template or an incomplete virtual
// machine.
func parameters(config *types.VirtualMachineConfigInfo) map[string]string {
	pairs := map[string]string{}
	if config == nil || config.Template {
		return pairs
	}
	for _, option := range config.ExtraConfig {
		if value := option.GetOptionValue(); value != nil {
			pairs[value.Key], _ = value.Value.(string)
		}
	}
	return pairs
}

// destroy implements cloud.
func (v *vSphere) destroy(ctx context.Context, server Server) error {
	return v.onMachine(ctx, server.ID, func(machine *object.VirtualMachine, vm mo.VirtualMachine) error {
		if vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOff {
			off, err := machine.PowerOff(ctx)
			if err == nil {
				err = off.Wait(ctx)
			}
			if _, already := faultOf(err).(*types.InvalidPowerState); err != nil && !already {
				return fmt.Errorf("powering the virtual machine off: %w", err)
			}
		}
		gone, err := machine.Destroy(ctx)
		if err == nil {
			err = gone.Wait(ctx)
		}
		if err != nil && !isGoneFault(faultOf(err)) {
			return fmt.Errorf("removing the virtual machine: %w", err)
		}
		return nil
	})
}

func isGoneFault(fault any) bool {
	switch fault.(type) {
	case *types.ManagedObjectNotFound, types.ManagedObjectNotFound:
		return true
	}
	return false
}

// faultOf returns vCenter's fault in the error of a task or a request, or nil if the error has
// none.
func faultOf(err error) any {
	var failed task.Error
	switch {
	case errors.As(err, &failed):
		return failed.Fault()
	case soap.IsSoapFault(err):
		return soap.ToSoapFault(err).VimFault()
	}
	return nil
}

// session logs in, runs work, and logs out. Like the driver it does not verify vCenter's
// certificate: the driver has no option for a CA.
func (v *vSphere) session(ctx context.Context, work func(*govmomi.Client) error) error {
	if v.host == "" {
		return errors.New("looking for virtual machines: no vCenter is set")
	}
	address := &url.URL{Scheme: "https", Host: net.JoinHostPort(v.host, strconv.Itoa(cmp.Or(v.port, 443))), Path: "/sdk"}
	client, err := govmomi.NewClient(ctx, address, true)
	if err != nil {
		return fmt.Errorf("connecting to vCenter: %w", err)
	}
	if err := client.Login(ctx, url.UserPassword(v.username, v.password)); err != nil {
		return fmt.Errorf("logging in to vCenter: %w", err)
	}
	defer func() { _ = client.Logout(context.WithoutCancel(ctx)) }()
	return work(client)
}
