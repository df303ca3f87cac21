package account

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// maxUserData is the API's limit on user data.
const maxUserData = 64 << 10

// startTime is how long a droplet is watched that has just been started: one that cannot boot ends within seconds.
const startTime = 20 * time.Second

var hostname = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.-]{0,253}[a-zA-Z0-9])?$`)

// DropletRequest asks for a droplet.
type DropletRequest struct {
	Name              string
	Region            string
	Size              string
	Image             string   // slug
	Keys              []string // ids or fingerprints
	Backups           bool
	IPv6              bool
	PrivateNetworking bool
	Monitoring        bool
	UserData          string
	Tags              []string
}

// CreateDroplet makes a droplet. It is new in the answer and becomes active on its own, as boot tells.
func (a *Account) CreateDroplet(caller Caller, request DropletRequest, boot fault.Boot) (godo.Droplet, error) {
	if err := request.validate(); err != nil {
		return godo.Droplet{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var keys []string
	for _, identifier := range request.Keys {
		key, err := a.findKey(identifier)
		if err != nil {
			return godo.Droplet{}, Unprocessable(identifier + " are invalid key identifiers for Droplet creation.")
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
	// It comes up by itself.
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
	if _, ok := findRegion(r.Region); !ok {
		return Unprocessable("You specified an invalid region for Droplet creation.")
	}
	if _, ok := findSize(r.Size); !ok {
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
		Name: "d" + strconv.Itoa(id), Hostname: request.Name, InstanceID: strconv.Itoa(id), Public: given.Public,
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
		Created: time.Now().UTC(), Features: request.features(), Tags: uniqueSorted(request.Tags), Spec: spec,
		userData: request.UserData, boot: boot, booted: make(chan struct{}),
	}
	a.droplets[id] = d
	return d, nil
}

func (r DropletRequest) features() []string {
	features := []string{}
	for name, wanted := range map[string]bool{
		"backups": r.Backups, "ipv6": r.IPv6, "monitoring": r.Monitoring, "private_networking": r.PrivateNetworking,
	} {
		if wanted {
			features = append(features, name)
		}
	}
	slices.Sort(features)
	return features
}

func (a *Account) bootDroplet(ctx context.Context, d *droplet) {
	if !wait(ctx, d.boot.Delay) || d.boot.Never {
		return
	}
	spec := d.Spec
	spec.UserData = d.userData
	err := a.opts.Backend.Create(ctx, spec)
	if ctx.Err() != nil {
		return // whoever stopped the boot also destroys what was begun
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
		if err := a.Vanish(a.ctx, d.ID); err != nil && !IsNotFound(err) {
			a.opts.Log.Error("letting droplet vanish", "id", d.ID, "error", err)
		}
	})
}

// watchStart tells of a droplet whose computer ended by itself as it began, and why.
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
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
