package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/ledger"
)

// replay rebuilds what the ledger says exists and takes the servers over.
func (a *Account) replay(ctx context.Context) error {
	for _, record := range a.opts.Ledger.Records() {
		var err error
		switch record.Kind {
		case ledger.KindTag:
			if record.IsLive() {
				a.tags[record.ID] = true
			}
		case ledger.KindKey:
			err = a.replayKey(record)
		case ledger.KindDroplet:
			err = a.replayDroplet(ctx, record)
		case ledger.KindServer: // the cloud's own, not the account's
		}
		if err != nil {
			return fmt.Errorf("rebuilding %s %s from the ledger: %w", record.Kind, record.ID, err)
		}
	}
	return nil
}

func (a *Account) replayKey(record ledger.Record) error {
	id, err := strconv.Atoi(record.ID)
	if err != nil {
		return fmt.Errorf("parsing id: %w", err)
	}
	a.nextKey = max(a.nextKey, id+1)
	if !record.IsLive() {
		return nil
	}
	var key godo.Key
	if err := json.Unmarshal(record.Data, &key); err != nil {
		return fmt.Errorf("parsing data: %w", err)
	}
	if key.ID != id {
		return fmt.Errorf("parsing data: it is of key %d", key.ID)
	}
	a.keys[id] = key
	return nil
}

func (a *Account) replayDroplet(ctx context.Context, record ledger.Record) error {
	id, err := strconv.Atoi(record.ID)
	if err != nil {
		return fmt.Errorf("parsing id: %w", err)
	}
	// Ids of another slot, which this cloud once had, may be given away by another cloud by now.
	if first := firstDropletID + a.opts.Slot*slotSize; id >= first && id < first+slotSize {
		a.nextDrop = max(a.nextDrop, id+1)
	}
	if !record.IsLive() {
		return nil
	}
	d := &droplet{booted: make(chan struct{})}
	close(d.booted)
	if err := json.Unmarshal(record.Data, &d.dropletData); err != nil {
		return fmt.Errorf("parsing data: %w", err)
	}
	if !d.Spec.Public.Is4() {
		return errors.New("parsing data: it tells no IPv4 address")
	}
	if d.ID != id {
		return fmt.Errorf("parsing data: it is of droplet %d", d.ID)
	}
	a.droplets[id] = d
	a.opts.Network.Claim(d.Spec.Public)
	adoptErr := a.opts.Backend.Adopt(ctx, d.Spec, d.Status != statusOff)
	if adoptErr == nil {
		if d.Status == statusNew {
			d.Status = statusActive
			a.record(Caller{Cause: "restart"}, d.entry(ledger.OpChanged))
		}
		return nil
	}
	a.opts.Log.Warn("droplet lost in a restart", "id", id, "error", adoptErr)
	return a.DeleteDroplet(ctx, Caller{Cause: "lost in a restart"}, id)
}
