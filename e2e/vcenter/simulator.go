package vcenter

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/simulator"

	// The REST half of vCenter: tags and content libraries.
	_ "github.com/vmware/govmomi/vapi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// Names in the simulated inventory.
const (
	Datacenter = "DC0"
	Datastore  = "LocalDS_0"
	Network    = "VM Network"
	Pool       = "/DC0/host/DC0_C0/Resources"
	// Template is the template of machines.
	Template = "debian-12"

	modelMachine = "DC0_C0_RP0_VM0"
)

// Options of a Simulator.
type Options struct {
	// Listen is host:port; port 0 takes a free one. Default 127.0.0.1:0.
	Listen string
	// Username and Password that may log in; any other login is refused.
	Username, Password string
	// Guests run in powered-on virtual machines. Default: addresses without a server.
	Guests Guests
	// Log receives the events of guests. Default: nowhere.
	Log *slog.Logger
}

// Simulator is a running vCenter simulator. There can be one in a process, for govmomi's keeps its
// inventory in package state.
type Simulator struct {
	opts   Options
	model  *simulator.Model
	server *simulator.Server
	client *govmomi.Client
	stop   context.CancelFunc
	done   chan struct{}
}

// Start serves a vCenter with one datacenter, cluster, host, datastore, network and template until
// Close.
func Start(ctx context.Context, o Options) (*Simulator, error) {
	if o.Username == "" || o.Password == "" {
		return nil, errors.New("a vCenter needs a username and a password")
	}
	o.Listen, o.Guests = cmp.Or(o.Listen, "127.0.0.1:0"), cmp.Or[Guests](o.Guests, &Addresses{})
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	s := &Simulator{opts: o, model: simulator.VPX(), done: make(chan struct{})}
	s.model.Host, s.model.ClusterHost, s.model.Machine, s.model.Autostart = 0, 1, 1, false
	if err := s.model.Create(); err != nil {
		return nil, fmt.Errorf("making the simulated inventory: %w", err)
	}
	s.model.Service.TLS = new(tls.Config)
	s.model.Service.RegisterEndpoints = true
	s.model.Service.Listen = &url.URL{Host: o.Listen, User: url.UserPassword(o.Username, o.Password)}
	if err := s.serve(); err != nil {
		s.model.Remove()
		return nil, err
	}
	if err := s.furnish(ctx); err != nil {
		close(s.done)
		return nil, errors.Join(err, s.Close())
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	go func() {
		defer close(s.done)
		s.watch(watching)
	}()
	return s, nil
}

// serve listens. The simulator panics where it cannot, as for an address that is in use.
func (s *Simulator) serve() (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("listening on %s: %v", s.opts.Listen, reason)
		}
	}()
	s.server = s.model.Service.NewServer()
	return nil
}

// furnish makes the template and logs in for the administrator's actions.
func (s *Simulator) furnish(ctx context.Context) error {
	client, err := govmomi.NewClient(ctx, s.server.URL, true)
	if err != nil {
		return fmt.Errorf("logging in to the simulator: %w", err)
	}
	s.client = client
	vm, err := find.NewFinder(client.Client).VirtualMachine(ctx, "/"+Datacenter+"/vm/"+modelMachine)
	if err != nil {
		return fmt.Errorf("finding the machine that becomes the template: %w", err)
	}
	task, err := vm.Reconfigure(ctx, types.VirtualMachineConfigSpec{Name: Template})
	if err == nil {
		err = task.Wait(ctx)
	}
	if err == nil {
		// Network cards have the labels that vCenter gives them, by which the driver finds those to
		// replace.
		s.change(vm.Reference(), func(vm *simulator.VirtualMachine) []types.PropertyChange {
			count := 0
			for _, device := range vm.Config.Hardware.Device {
				card, isCard := device.(types.BaseVirtualEthernetCard)
				if !isCard {
					continue
				}
				count++
				info := card.GetVirtualEthernetCard().DeviceInfo.GetDescription()
				info.Label = fmt.Sprintf("Network adapter %d", count)
			}
			return nil
		})
		err = vm.MarkAsTemplate(ctx)
	}
	if err != nil {
		return fmt.Errorf("making the template: %w", err)
	}
	return nil
}

// Address is host:port of the SDK endpoint.
func (s *Simulator) Address() string { return s.server.URL.Host }

// Close ends the guests and the server.
func (s *Simulator) Close() error {
	if s.stop != nil {
		s.stop()
	}
	<-s.done
	err := s.opts.Guests.Close()
	s.server.Close()
	s.model.Remove()
	return err
}

// change modifies a virtual machine from within the simulator, for properties that a vCenter's
// clients cannot set.
func (s *Simulator) change(ref types.ManagedObjectReference, alter func(*simulator.VirtualMachine) []types.PropertyChange) {
	ctx := simulator.SpoofContext()
	ctx.Map = simulator.Map
	entity, exists := ctx.Map.Get(ref).(mo.Entity)
	if !exists {
		return
	}
	ctx.WithLock(ref, func() {
		if vm, isMachine := entity.(*simulator.VirtualMachine); isMachine {
			ctx.Map.Update(vm, alter(vm))
		}
	})
}
