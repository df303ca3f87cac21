package account

import (
	"context"
	"time"

	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// Act starts a power action on a droplet.
func (a *Account) Act(caller Caller, id int, kind string) (godo.Action, error) {
	change := server.Power(kind)
	switch kind {
	case "power_on", "power_off", "shutdown", "reboot":
	case "power_cycle":
		change = server.Reboot
	default:
		return godo.Action{}, Unprocessable("Type is invalid or not supported here: " + kind)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	d, found := a.droplets[id]
	if !found {
		return godo.Action{}, NotFound()
	}
	if d.pending != 0 || d.Status == statusNew {
		return godo.Action{}, Unprocessable("Droplet already has a pending event.")
	}
	if change == server.PowerOn && a.opts.Backend.Running(d.Spec.Name) {
		return godo.Action{}, Unprocessable("Droplet is already powered on.")
	}
	action := a.startAction(d, kind)
	a.booting.Go(func() { a.changePower(a.ctx, caller, d, change) })
	return *action, nil
}

func (a *Account) changePower(ctx context.Context, caller Caller, d *droplet, change server.Power) {
	err := a.opts.Backend.Power(ctx, d.Spec.Name, change)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.opts.Log.Error("changing power", "id", d.ID, "change", change, "error", err)
		a.endAction(d, "errored")
		return
	}
	d.Status = statusActive
	if change == server.PowerOff || change == server.Shutdown {
		d.Status = statusOff
	}
	a.endAction(d, godo.ActionCompleted)
	if a.droplets[d.ID] == d {
		a.record(caller, d.entry(ledger.OpChanged))
	}
}

// Action returns one action.
func (a *Account) Action(id int) (godo.Action, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	action, ok := a.actions[id]
	if !ok {
		return godo.Action{}, NotFound()
	}
	return *action, nil
}

// DropletAction returns one action of one droplet.
func (a *Account) DropletAction(dropletID, id int) (godo.Action, error) {
	action, err := a.Action(id)
	if err == nil && action.ResourceID != dropletID {
		return godo.Action{}, NotFound()
	}
	return action, err
}

// Actions returns the actions of one droplet, newest first; 0 returns those of all.
func (a *Account) Actions(dropletID int) []godo.Action {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := []godo.Action{}
	for id := a.nextAct - 1; id >= firstActionID; id-- {
		if action := a.actions[id]; dropletID == 0 || action.ResourceID == dropletID {
			found = append(found, *action)
		}
	}
	return found
}

func (a *Account) startAction(d *droplet, kind string) *godo.Action {
	region, _ := FindRegion(d.Region)
	action := &godo.Action{
		ID: a.nextAct, Status: godo.ActionInProgress, Type: kind, StartedAt: now(),
		ResourceID: d.ID, ResourceType: "droplet", Region: &region, RegionSlug: d.Region,
	}
	a.nextAct++
	a.actions[action.ID] = action
	d.pending = action.ID
	return action
}

// endAction ends the droplet's pending action, if there is one.
func (a *Account) endAction(d *droplet, status string) {
	if action, ok := a.actions[d.pending]; ok {
		action.Status = status
		action.CompletedAt = now()
	}
	d.pending = 0
}

func now() *godo.Timestamp {
	return &godo.Timestamp{Time: time.Now().UTC().Truncate(time.Second)}
}
