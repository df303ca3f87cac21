package vcenter

import (
	"fmt"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// change alters a virtual machine from within the simulator, for what no client of a vCenter may say.
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

// report says what VMware Tools say of a guest that has its address: on every network card, since the driver waits for all.
func (s *Simulator) report(ref types.ManagedObjectReference, address string) {
	s.change(ref, func(vm *simulator.VirtualMachine) []types.PropertyChange {
		cards := append([]types.GuestNicInfo(nil), vm.Guest.Net...)
		for i := range cards {
			cards[i].IpAddress = []string{address}
			cards[i].IpConfig = &types.NetIpConfigInfo{IpAddress: []types.NetIpConfigInfoIpAddress{
				{IpAddress: address, PrefixLength: 16, State: string(types.NetIpConfigInfoIpAddressStatusPreferred)},
			}}
		}
		return []types.PropertyChange{
			{Name: "guest.net", Val: cards},
			{Name: "guest.ipAddress", Val: address},
			{Name: "guest.toolsRunningStatus", Val: string(types.VirtualMachineToolsRunningStatusGuestToolsRunning)},
			{Name: "summary.guest.ipAddress", Val: address},
		}
	})
}

// labelNetworkCards gives network cards the labels that vCenter gives them, by which the driver finds those to replace.
func (s *Simulator) labelNetworkCards(ref types.ManagedObjectReference) {
	s.change(ref, func(vm *simulator.VirtualMachine) []types.PropertyChange {
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
}
