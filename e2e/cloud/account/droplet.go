package account

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// Droplet states as the API tells them.
const (
	statusNew    = "new"
	statusActive = "active"
	statusOff    = "off"
)

// Boot says how a droplet's boot goes wrong; the zero value is a good boot.
type Boot struct {
	Delay       time.Duration `json:"delay,omitempty"`       // beside the account's own
	Never       bool          `json:"never,omitempty"`       // stays new for ever
	Offline     bool          `json:"offline,omitempty"`     // active with addresses, but cannot be reached
	NoAddress   bool          `json:"noAddress,omitempty"`   // active, but the API tells no address
	VanishAfter time.Duration `json:"vanishAfter,omitempty"` // gone so long after it became active
}

// droplet is what the account knows of one; guarded by the account's mutex.
type droplet struct {
	dropletData
	userData string
	boot     Boot
	pending  int                // the id of the action under way, or 0
	stop     context.CancelFunc // ends the boot
	booted   chan struct{}      // closed when the boot has ended, well or not
}

// dropletData is what survives a restart, kept in the ledger.
type dropletData struct {
	ID         int         `json:"id"`
	Region     string      `json:"region"`
	Size       string      `json:"size"`
	Image      string      `json:"image"`
	Status     string      `json:"status"`
	Created    time.Time   `json:"created"`
	Features   []string    `json:"features,omitempty"`
	HasPrivate bool        `json:"hasPrivate,omitempty"`
	HasIPv6    bool        `json:"hasIPv6,omitempty"`
	NoAddress  bool        `json:"noAddress,omitempty"`
	Tags       []string    `json:"tags,omitempty"`
	Spec       server.Spec `json:"spec"`
}

func (d *droplet) entry(op ledger.Op) ledger.Entry {
	data, err := json.Marshal(d.dropletData)
	if err != nil { // plain data: cannot happen
		data = nil
	}
	return ledger.Entry{
		Op: op, Kind: ledger.KindDroplet, ID: strconv.Itoa(d.ID), Name: d.Spec.Hostname,
		Tags: slices.Clone(d.Tags), Data: data,
	}
}

// render shows the droplet as the API does.
func (a *Account) render(d *droplet) godo.Droplet {
	region, _ := FindRegion(d.Region)
	size, _ := FindSize(d.Size)
	image, _ := FindImage(d.Image)
	status := d.Status
	if status == statusActive && d.pending == 0 && !a.opts.Backend.Running(d.Spec.Name) {
		status = statusOff
	}
	return godo.Droplet{
		ID: d.ID, Name: d.Spec.Hostname, Memory: size.Memory, Vcpus: size.Vcpus, Disk: size.Disk,
		Region: &region, Image: &image, Size: &size, SizeSlug: size.Slug,
		BackupIDs: []int{}, SnapshotIDs: []int{}, VolumeIDs: []string{}, Features: append([]string{}, d.Features...),
		Locked: status == statusNew || d.pending != 0, Status: status, Networks: a.networks(d),
		Created: d.Created.UTC().Format(time.RFC3339), Tags: append([]string{}, d.Tags...),
		VPCUUID: "c1d6a9b4-7e0b-4b3e-9d2b-1f2e6f6b8a01",
	}
}

func (a *Account) networks(d *droplet) *godo.Networks {
	networks := &godo.Networks{V4: []godo.NetworkV4{}, V6: []godo.NetworkV6{}}
	if d.Status == statusNew || d.NoAddress {
		return networks
	}
	v4 := func(address netip.Addr, gateway, kind string) {
		networks.V4 = append(networks.V4, godo.NetworkV4{
			IPAddress: address.String(), Netmask: "255.255.0.0", Gateway: gateway, Type: kind,
		})
	}
	if d.HasPrivate {
		v4(d.Spec.Private, "", "private")
	}
	v4(d.Spec.Public, a.opts.Network.Gateway.String(), "public")
	if d.HasIPv6 {
		networks.V6 = append(networks.V6, godo.NetworkV6{
			IPAddress: d.Spec.IPv6.String(), Netmask: 64, Gateway: "2001:db8:d00d::1", Type: "public",
		})
	}
	return networks
}
