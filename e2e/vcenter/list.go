package vcenter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/mo"
)

// Machine is a virtual machine as vCenter shows it.
type Machine struct {
	Name    string `json:"name"`
	UUID    string `json:"uuid"`
	Power   string `json:"power"`
	Address string `json:"address,omitempty"`
}

// List asks a vCenter for its virtual machines, by name and without templates.
func List(ctx context.Context, at Endpoint) ([]Machine, error) {
	var machines []Machine
	err := inventory(ctx, at, func(_ *govmomi.Client, found []mo.VirtualMachine) error {
		for _, vm := range found {
			machine := Machine{Name: vm.Name, UUID: vm.Summary.Config.Uuid, Power: string(vm.Summary.Runtime.PowerState)}
			if vm.Guest != nil {
				machine.Address = vm.Guest.IpAddress
			}
			machines = append(machines, machine)
		}
		return nil
	})
	slices.SortFunc(machines, func(a, b Machine) int { return strings.Compare(a.Name, b.Name) })
	return machines, err
}

// Destroy ends a virtual machine, in any folder, and removes it, as an administrator would behind
// everyone's back.
func Destroy(ctx context.Context, at Endpoint, name string) error {
	return inventory(ctx, at, func(client *govmomi.Client, found []mo.VirtualMachine) error {
		named := slices.DeleteFunc(found, func(vm mo.VirtualMachine) bool { return vm.Name != name })
		if len(named) != 1 {
			return fmt.Errorf("finding %q: %d virtual machines have that name", name, len(named))
		}
		vm := object.NewVirtualMachine(client.Client, named[0].Reference())
		// A machine that is off already need not be switched off.
		if task, err := vm.PowerOff(ctx); err == nil {
			_ = task.Wait(ctx)
		}
		task, err := vm.Destroy(ctx)
		if err == nil {
			err = task.Wait(ctx)
		}
		if err != nil {
			return fmt.Errorf("destroying %s: %w", name, err)
		}
		return nil
	})
}

// inventory logs in and calls do with the virtual machines that are not templates.
func inventory(ctx context.Context, at Endpoint, do func(*govmomi.Client, []mo.VirtualMachine) error) error {
	where := &url.URL{Scheme: "https", Host: at.Address, Path: "/sdk", User: url.UserPassword(at.Username, at.Password)}
	// The simulator's certificate is its own, and so the driver does not look at it either.
	client, err := govmomi.NewClient(ctx, where, true)
	if err != nil {
		return fmt.Errorf("logging in to %s: %w", at.Address, err)
	}
	defer func() { _ = client.Logout(context.WithoutCancel(ctx)) }() // with it the view goes
	all, err := view.NewManager(client.Client).CreateContainerView(ctx, client.ServiceContent.RootFolder, []string{"VirtualMachine"}, true)
	if err != nil {
		return fmt.Errorf("making a view: %w", err)
	}
	var found []mo.VirtualMachine
	if err := all.Retrieve(ctx, []string{"VirtualMachine"}, []string{"name", "summary", "guest.ipAddress"}, &found); err != nil {
		return fmt.Errorf("listing virtual machines: %w", err)
	}
	return do(client, slices.DeleteFunc(found, func(vm mo.VirtualMachine) bool { return vm.Summary.Config.Template }))
}

const endpointFile = "endpoint.json"

// Endpoint is where and how to log in.
type Endpoint struct {
	Address  string `json:"address"`
	Username string `json:"username"`
	Password string `json:"password"`
}

// Endpoint of the simulator.
func (s *Simulator) Endpoint() Endpoint {
	return Endpoint{Address: s.Address(), Username: s.opts.Username, Password: s.opts.Password}
}

// WriteEndpoint leaves an endpoint in a state directory.
func WriteEndpoint(stateDir string, endpoint Endpoint) error {
	content, err := json.Marshal(endpoint) //nolint:gosec // the simulated password is to be read by other commands, from a file of ours alone
	if err != nil {
		return fmt.Errorf("encoding the endpoint: %w", err)
	}
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return fmt.Errorf("making the state directory: %w", err)
	}
	// The file is replaced atomically, so that readers find it complete.
	partial := filepath.Join(stateDir, endpointFile+".partial")
	if err := os.WriteFile(partial, content, 0o600); err != nil {
		return fmt.Errorf("writing the endpoint: %w", err)
	}
	return os.Rename(partial, filepath.Join(stateDir, endpointFile))
}

// ReadEndpoint finds the simulator that serves from a state directory.
func ReadEndpoint(stateDir string) (Endpoint, error) {
	var endpoint Endpoint
	content, err := os.ReadFile(filepath.Join(stateDir, endpointFile))
	if err != nil {
		return endpoint, fmt.Errorf("finding a running simulator: %w", err)
	}
	if err := json.Unmarshal(content, &endpoint); err != nil {
		return endpoint, fmt.Errorf("reading the endpoint: %w", err)
	}
	return endpoint, nil
}

// RemoveEndpoint takes the endpoint away, with its password.
func RemoveEndpoint(stateDir string) error {
	if err := os.Remove(filepath.Join(stateDir, endpointFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
