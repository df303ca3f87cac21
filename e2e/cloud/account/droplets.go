package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/digitalocean/godo"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// maxUserData is the API's limit on user data.
const maxUserData = 64 << 10

// startTime is how long a droplet is watched that has just been started: one that cannot boot ends
// within seconds.
const startTime = 20 * time.Second

var hostname = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.-]{0,253}[a-zA-Z0-9])?$`)

// DropletRequest asks for a droplet.
type DropletRequest struct {
	Name              string               `json:"name"`
	Region            string               `json:"region"`
	Size              string               `json:"size"`
	Image             string               `json:"image"`    // slug
	Keys              []intstr.IntOrString `json:"ssh_keys"` // ids or fingerprints
	IPv6              bool                 `json:"ipv6"`
	PrivateNetworking bool                 `json:"private_networking"`
	UserData          string               `json:"user_data"`
	Tags              []string             `json:"tags"`
}

// CreateDroplet makes a droplet. Its status is new in the answer; boot makes it active later.
func (a *Account) CreateDroplet(caller Caller, request DropletRequest, boot fault.Boot) (godo.Droplet, error) {
	if err := request.validate(); err != nil {
		return godo.Droplet{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var keys []string
	for _, identifier := range request.Keys {
		key, err := a.findKey(identifier.String())
		if err != nil {
			return godo.Droplet{}, Unprocessable(identifier.String() + " are invalid key identifiers for Droplet creation.")
		}
		if !slices.Contains(keys, key.PublicKey) {
			keys = append(keys, key.PublicKey)
		}
	}
	d, err := a.newDroplet(request, keys, boot)
	if err != nil {
		return godo.Droplet{}, err
	}
	a.addTags(caller, request.Tags)
	a.record(caller, d.entry(ledger.OpCreated))
	// The droplet boots in the background.
	ctx, stop := context.WithCancel(a.ctx)
	d.stop = stop
	a.booting.Go(func() {
		defer close(d.booted)
		defer stop()
		a.bootDroplet(ctx, d)
	})
	return a.render(d), nil
}

func (r DropletRequest) validate() error {
	if r.Name == "" {
		return Unprocessable("Name can't be blank")
	}
	if !hostname.MatchString(r.Name) {
		return Unprocessable("Name Only valid hostname characters are allowed. (a-z, A-Z, 0-9, . and -)")
	}
	if !slices.Contains(regions, r.Region) {
		return Unprocessable("You specified an invalid region for Droplet creation.")
	}
	if _, ok := sizes[r.Size]; !ok {
		return Unprocessable("You specified an invalid size for Droplet creation.")
	}
	if !slices.Contains(images, r.Image) {
		return Unprocessable("You specified an invalid image for Droplet creation.")
	}
	if len(r.UserData) > maxUserData {
		return Unprocessable("User data is too long (maximum is 65536 bytes)")
	}
	return validateTags(r.Tags)
}

func (a *Account) newDroplet(request DropletRequest, keys []string, boot fault.Boot) (*droplet, error) {
	given, err := a.opts.Network.Allocate()
	if err != nil {
		return nil, Unprocessable(err.Error())
	}
	id := a.nextDrop
	a.nextDrop++
	spec := server.Spec{
		Name: ServerName(id), Hostname: request.Name, InstanceID: strconv.Itoa(id), Public: given.Public,
		Keys: keys, Offline: boot.Offline,
	}
	if request.PrivateNetworking {
		spec.Private = given.Private
	}
	if request.IPv6 {
		spec.IPv6 = given.IPv6
	}
	d := &droplet{
		ID: id, Region: request.Region, Size: request.Size, Image: request.Image, Status: statusNew,
		Created: time.Now().UTC(), Tags: slices.Compact(slices.Sorted(slices.Values(request.Tags))), Spec: spec,
		userData: request.UserData, boot: boot, booted: make(chan struct{}),
	}
	a.droplets[id] = d
	return d, nil
}

// ServerName is the backend's name for the server of a droplet.
func ServerName(id int) string { return "d" + strconv.Itoa(id) }

func (a *Account) bootDroplet(ctx context.Context, d *droplet) {
	if !wait(ctx, d.boot.Delay) || d.boot.Never {
		return
	}
	spec := d.Spec
	spec.UserData = d.userData
	err := a.opts.Backend.Create(ctx, spec)
	if ctx.Err() != nil {
		return // the caller that stopped the boot also destroys the unfinished server
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.opts.Log.Error("booting droplet", "id", d.ID, "error", err)
		a.record(Caller{Cause: "did not boot: " + err.Error()}, d.entry(ledger.OpChanged))
		return
	}
	d.Status = statusActive
	a.record(Caller{Cause: "booted"}, d.entry(ledger.OpChanged))
	a.booting.Go(func() { a.watchStart(d) })
	if d.boot.VanishAfter <= 0 {
		return
	}
	a.booting.Go(func() {
		if !wait(a.ctx, d.boot.VanishAfter) {
			return
		}
		err := a.DeleteDroplet(a.ctx, Vanished, d.ID)
		if _, gone := errors.AsType[*Error](err); err != nil && !gone {
			a.opts.Log.Error("letting droplet vanish", "id", d.ID, "error", err)
		}
	})
}

// watchStart logs that a droplet's computer ended during its start, and why.
func (a *Account) watchStart(d *droplet) {
	ctx, cancel := context.WithTimeout(a.ctx, startTime)
	defer cancel()
	printed := a.opts.Backend.AwaitEnd(ctx, d.Spec.Name)
	if printed == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.droplets[d.ID] != d || d.Status != statusActive || a.opts.Backend.Running(d.Spec.Name) {
		return // its owner did it
	}
	d.Status = statusOff
	a.opts.Log.Error("droplet did not boot", "id", d.ID, "name", d.Spec.Hostname, "why", printed)
	a.record(Caller{Cause: "did not boot: " + printed}, d.entry(ledger.OpChanged))
}

// wait reports false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// Droplet states of the API.
const (
	statusNew    = "new"
	statusActive = "active"
	statusOff    = "off"
)

// droplet is the account's record of a droplet; guarded by the account's mutex.
type droplet struct {
	ID                  int
	Region, Size, Image string
	Status              string
	Created             time.Time
	Tags                []string
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
	region, size := Regions()[slices.Index(regions, d.Region)], sizes[d.Size]
	size.Slug, size.Available = d.Size, true
	status := d.Status
	if status == statusActive && !a.opts.Backend.Running(d.Spec.Name) {
		status = statusOff
	}
	networks := &godo.Networks{V4: []godo.NetworkV4{}, V6: []godo.NetworkV6{}}
	if d.Status != statusNew && !d.boot.NoAddress {
		if d.Spec.Private.IsValid() {
			networks.V4 = append(networks.V4, godo.NetworkV4{IPAddress: d.Spec.Private.String(), Netmask: "255.255.0.0", Type: "private"})
		}
		networks.V4 = append(networks.V4, godo.NetworkV4{
			IPAddress: d.Spec.Public.String(), Netmask: "255.255.0.0", Gateway: a.opts.Network.Gateway.String(), Type: "public",
		})
		if d.Spec.IPv6.IsValid() {
			networks.V6 = append(networks.V6, godo.NetworkV6{IPAddress: d.Spec.IPv6.String(), Netmask: 64, Gateway: "2001:db8:d00d::1", Type: "public"})
		}
	}
	return godo.Droplet{
		ID: d.ID, Name: d.Spec.Hostname, Memory: size.Memory, Vcpus: size.Vcpus, Disk: size.Disk,
		Region: &region, Image: &godo.Image{Slug: d.Image}, Size: &size, SizeSlug: size.Slug,
		BackupIDs: []int{}, SnapshotIDs: []int{}, VolumeIDs: []string{},
		Locked: status == statusNew, Status: status, Networks: networks,
		Created: d.Created.UTC().Format(time.RFC3339), Tags: append([]string{}, d.Tags...),
		VPCUUID: "c1d6a9b4-7e0b-4b3e-9d2b-1f2e6f6b8a01",
	}
}

// Droplets returns the droplets with the given name and tag, oldest first; empty matches all.
func (a *Account) Droplets(name, tag string) []godo.Droplet {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := []godo.Droplet{}
	for _, d := range a.selectDroplets(name, tag) {
		found = append(found, a.render(d))
	}
	return found
}

func (a *Account) selectDroplets(name, tag string) []*droplet {
	found := slices.DeleteFunc(slices.Collect(maps.Values(a.droplets)), func(d *droplet) bool {
		return name != "" && d.Spec.Hostname != name || tag != "" && !slices.Contains(d.Tags, tag)
	})
	slices.SortFunc(found, func(x, y *droplet) int { return cmp.Compare(x.ID, y.ID) })
	return found
}

// Droplet returns one droplet.
func (a *Account) Droplet(id int) (godo.Droplet, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d, ok := a.droplets[id]
	if !ok {
		return godo.Droplet{}, NotFound()
	}
	return a.render(d), nil
}

// AwaitBoot waits until the droplet's boot has ended, well or not, for at most
// so long.
func (a *Account) AwaitBoot(ctx context.Context, id int, atMost time.Duration) {
	a.mu.Lock()
	d, ok := a.droplets[id]
	a.mu.Unlock()
	if !ok {
		return
	}
	select {
	case <-d.booted:
	case <-time.After(atMost):
	case <-ctx.Done():
	}
}

// UserData returns the user data the droplet was created with.
func (a *Account) UserData(id int) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d, ok := a.droplets[id]
	if !ok {
		return "", NotFound()
	}
	return d.userData, nil
}

// DeleteDroplet destroys a droplet, and returns when it is completely removed.
func (a *Account) DeleteDroplet(ctx context.Context, caller Caller, id int) error {
	a.mu.Lock()
	d, ok := a.droplets[id]
	delete(a.droplets, id)
	a.mu.Unlock()
	if !ok {
		return NotFound()
	}
	if d.stop != nil {
		d.stop()
		<-d.booted
	}
	if err := a.opts.Backend.Destroy(ctx, d.Spec.Name); err != nil {
		a.mu.Lock()
		a.droplets[id] = d
		a.mu.Unlock()
		return fmt.Errorf("destroying droplet %d: %w", id, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.opts.Network.Release(d.Spec.Public)
	a.record(caller, d.entry(ledger.OpRemoved))
	return nil
}

// images can be asked for by their slug. Real servers all boot the same root file system, whatever
// the image is called.
var images = []string{"ubuntu-20-04-x64", "ubuntu-22-04-x64", "ubuntu-24-04-x64", "debian-12-x64", "rockylinux-9-x64"}

// regions are the catalog's.
var regions = []string{"ams3", "blr1", "fra1", "lon1", "nyc1", "nyc2", "nyc3", "sfo2", "sfo3", "sgp1", "syd1", "tor1"}

// Regions returns the regions of the catalog.
func Regions() []godo.Region {
	var all []godo.Region
	for _, slug := range regions {
		all = append(all, godo.Region{Slug: slug, Name: slug, Available: true, Features: []string{"backups", "ipv6", "metadata", "private_networking"}})
	}
	return all
}

// sizes are the catalog's, by their slug.
var sizes = map[string]godo.Size{
	"s-1vcpu-512mb-10gb": {Memory: 512, Vcpus: 1, Disk: 10},
	"s-1vcpu-1gb":        {Memory: 1024, Vcpus: 1, Disk: 25},
	"s-1vcpu-2gb":        {Memory: 2048, Vcpus: 1, Disk: 50},
	"s-2vcpu-2gb":        {Memory: 2048, Vcpus: 2, Disk: 60},
	"s-2vcpu-4gb":        {Memory: 4096, Vcpus: 2, Disk: 80},
	"s-4vcpu-8gb":        {Memory: 8192, Vcpus: 4, Disk: 160},
	"c-2":                {Memory: 4096, Vcpus: 2, Disk: 25},
	"g-2vcpu-8gb":        {Memory: 8192, Vcpus: 2, Disk: 25},
}
