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

// maxNames is how many droplets one request may ask for.
const maxNames = 10

var hostname = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.-]{0,253}[a-zA-Z0-9])?$`)

// DropletRequest asks for one droplet per name.
type DropletRequest struct {
	Names             []string
	Region            string
	Size              string
	Image             string   // slug or id
	Keys              []string // ids or fingerprints
	Backups           bool
	IPv6              bool
	PrivateNetworking bool
	Monitoring        bool
	UserData          string
	Tags              []string
}

// CreateDroplets makes a droplet for each name. They are new in the answer
// and become active on their own, as boot tells.
func (a *Account) CreateDroplets(caller Caller, request DropletRequest, boot fault.Boot) ([]godo.Droplet, error) {
	if err := request.validate(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	keys, err := a.resolveKeys(request.Keys)
	if err != nil {
		return nil, err
	}
	made, err := a.newDroplets(request, keys, boot)
	if err != nil {
		return nil, err
	}
	a.addTags(caller, request.Tags)
	var droplets []godo.Droplet
	for _, d := range made {
		a.record(caller, d.entry(ledger.OpCreated))
		droplets = append(droplets, a.render(d))
		// It comes up by itself.
		ctx, stop := context.WithCancel(a.ctx)
		d.stop = stop
		a.booting.Go(func() {
			defer close(d.booted)
			defer stop()
			a.bootDroplet(ctx, d)
		})
	}
	return droplets, nil
}

func (r DropletRequest) validate() error {
	if len(r.Names) == 0 {
		return Unprocessable("Name can't be blank")
	}
	if len(r.Names) > maxNames {
		return Unprocessable("You can create a maximum of 10 Droplets per request.")
	}
	for _, name := range r.Names {
		if !hostname.MatchString(name) {
			return Unprocessable("Name Only valid hostname characters are allowed. (a-z, A-Z, 0-9, . and -)")
		}
	}
	if _, ok := FindRegion(r.Region); !ok {
		return Unprocessable("You specified an invalid region for Droplet creation.")
	}
	if _, ok := FindSize(r.Size); !ok {
		return Unprocessable("You specified an invalid size for Droplet creation.")
	}
	if _, ok := FindImage(r.Image); !ok {
		return Unprocessable("You specified an invalid image for Droplet creation.")
	}
	if len(r.UserData) > maxUserData {
		return Unprocessable("User data is too long (maximum is 65536 bytes)")
	}
	return validateTags(r.Tags)
}

func (a *Account) resolveKeys(identifiers []string) ([]string, error) {
	keys := make([]string, 0, len(identifiers))
	for _, identifier := range identifiers {
		key, err := a.findKey(identifier)
		if err != nil {
			return nil, Unprocessable(identifier + " are invalid key identifiers for Droplet creation.")
		}
		if !slices.Contains(keys, key.PublicKey) {
			keys = append(keys, key.PublicKey)
		}
	}
	return keys, nil
}

// newDroplets makes all droplets of a request or none: a client that is
// refused looks for nothing to delete.
func (a *Account) newDroplets(request DropletRequest, keys []string, boot fault.Boot) ([]*droplet, error) {
	made := make([]*droplet, 0, len(request.Names))
	for _, name := range request.Names {
		d, err := a.newDroplet(request, name, keys, boot)
		if err != nil {
			for _, d := range made {
				delete(a.droplets, d.ID)
				a.opts.Network.Release(d.Spec.Public)
			}
			return nil, err
		}
		made = append(made, d)
	}
	return made, nil
}

func (a *Account) newDroplet(request DropletRequest, name string, keys []string, boot fault.Boot) (*droplet, error) {
	given, err := a.opts.Network.Allocate()
	if err != nil {
		return nil, Unprocessable(err.Error())
	}
	id := a.nextDrop
	a.nextDrop++
	spec := server.Spec{
		Name: "d" + strconv.Itoa(id), Hostname: name, InstanceID: strconv.Itoa(id), Public: given.Public,
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
