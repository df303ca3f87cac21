package account

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// Droplet states as the API tells them.
const (
	statusNew    = "new"
	statusActive = "active"
	statusOff    = "off"
)

// droplet is what the account knows of one; guarded by the account's mutex.
type droplet struct {
	ID                  int
	Region, Size, Image string
	Status              string
	Created             time.Time
	Features, Tags      []string
	Spec                server.Spec

	userData string
	boot     fault.Boot
	stop     context.CancelFunc // ends the boot
	booted   chan struct{}      // closed when the boot has ended, well or not
}

func (d *droplet) entry(op ledger.Op) ledger.Entry {
	return ledger.Entry{
		Op: op, Kind: ledger.KindDroplet, ID: strconv.Itoa(d.ID), Name: d.Spec.Hostname, Tags: slices.Clone(d.Tags),
	}
}

// render shows the droplet as the API does.
func (a *Account) render(d *droplet) godo.Droplet {
	region, _ := findRegion(d.Region)
	size, _ := findSize(d.Size)
	status := d.Status
	if status == statusActive && !a.opts.Backend.Running(d.Spec.Name) {
		status = statusOff
	}
	return godo.Droplet{
		ID: d.ID, Name: d.Spec.Hostname, Memory: size.Memory, Vcpus: size.Vcpus, Disk: size.Disk,
		Region: &region, Image: &godo.Image{Slug: d.Image}, Size: &size, SizeSlug: size.Slug,
		BackupIDs: []int{}, SnapshotIDs: []int{}, VolumeIDs: []string{}, Features: append([]string{}, d.Features...),
		Locked: status == statusNew, Status: status, Networks: a.networks(d),
		Created: d.Created.UTC().Format(time.RFC3339), Tags: append([]string{}, d.Tags...),
		VPCUUID: "c1d6a9b4-7e0b-4b3e-9d2b-1f2e6f6b8a01",
	}
}

func (a *Account) networks(d *droplet) *godo.Networks {
	networks := &godo.Networks{V4: []godo.NetworkV4{}, V6: []godo.NetworkV6{}}
	if d.Status == statusNew || d.boot.NoAddress {
		return networks
	}
	v4 := func(address netip.Addr, gateway, kind string) {
		networks.V4 = append(networks.V4, godo.NetworkV4{
			IPAddress: address.String(), Netmask: "255.255.0.0", Gateway: gateway, Type: kind,
		})
	}
	if d.Spec.Private.IsValid() {
		v4(d.Spec.Private, "", "private")
	}
	v4(d.Spec.Public, a.opts.Network.Gateway.String(), "public")
	if d.Spec.IPv6.IsValid() {
		networks.V6 = append(networks.V6, godo.NetworkV6{
			IPAddress: d.Spec.IPv6.String(), Netmask: 64, Gateway: "2001:db8:d00d::1", Type: "public",
		})
	}
	return networks
}
