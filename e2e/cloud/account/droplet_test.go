package account_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/server"
)

var update = flag.Bool("update", false, "write the golden files")

// requireGolden compares value as JSON with a golden file.
func requireGolden(t *testing.T, name string, value any) {
	t.Helper()
	got, err := json.MarshalIndent(value, "", "  ")
	require.NoError(t, err)
	got = append(got, '\n')
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func TestADropletLooksAsTheAPIShowsIt(t *testing.T) {
	b := newBed(t, account.Options{})
	request := ask("web-1")
	request.Tags = []string{"web", "drover:uid-1", "web"}
	request.Backups, request.IPv6, request.PrivateNetworking, request.Monitoring = true, true, true, true
	made, actions, err := b.CreateDroplets(caller, request, account.Boot{})
	require.NoError(t, err)
	made[0].Created = "2026-01-02T03:04:05Z"
	requireGolden(t, "droplet-new.json", made[0])
	actions[0].StartedAt = nil
	requireGolden(t, "action-create.json", actions[0])
	b.AwaitBoot(t.Context(), made[0].ID, 10*time.Second)
	active, err := b.Droplet(made[0].ID)
	require.NoError(t, err)
	active.Created = "2026-01-02T03:04:05Z"
	requireGolden(t, "droplet-active.json", active)
}

func TestAPlainDropletHasOnePublicAddress(t *testing.T) {
	b := newBed(t, account.Options{})
	droplet := b.create(t, "web-1")
	require.Equal(t, []string{}, droplet.Features)
	require.Equal(t, []string{}, droplet.Tags)
	require.Equal(t, &godo.Networks{
		V4: []godo.NetworkV4{{IPAddress: "198.18.17.1", Netmask: "255.255.0.0", Gateway: "198.18.0.1", Type: "public"}},
		V6: []godo.NetworkV6{},
	}, droplet.Networks)
}

func TestSlotsKeepIDsApart(t *testing.T) {
	ids := map[int]bool{}
	for slot := range 3 {
		b := newBed(t, account.Options{Slot: slot})
		ids[b.create(t, "web-1").ID] = true
	}
	require.Equal(t, map[int]bool{100_000_001: true, 110_000_001: true, 120_000_001: true}, ids)
}

func TestDropletsAreFoundByNameAndTag(t *testing.T) {
	b := newBed(t, account.Options{})
	b.create(t, "a", "blue")
	b.create(t, "b", "blue", "big")
	b.create(t, "a", "big")
	for name, test := range map[string]struct {
		name, tag string
		want      []int
	}{
		"all":          {"", "", []int{100_000_001, 100_000_002, 100_000_003}},
		"name":         {"a", "", []int{100_000_001, 100_000_003}},
		"tag":          {"", "blue", []int{100_000_001, 100_000_002}},
		"both":         {"a", "big", []int{100_000_003}},
		"other case":   {"A", "", []int{}},
		"part of name": {"", "bl", []int{}},
		"none":         {"c", "", []int{}},
	} {
		t.Run(name, func(t *testing.T) {
			found := []int{}
			for _, droplet := range b.Droplets(test.name, test.tag) {
				found = append(found, droplet.ID)
			}
			require.Equal(t, test.want, found)
		})
	}
}

func TestUnknownThingsAreNotFound(t *testing.T) {
	b := newBed(t, account.Options{})
	for name, get := range map[string]func() error{
		"droplet":        func() error { _, err := b.Droplet(7); return err },
		"user data":      func() error { _, err := b.UserData(7); return err },
		"deletion":       func() error { return b.DeleteDroplet(t.Context(), caller, 7) },
		"vanishing":      func() error { return b.Vanish(t.Context(), 7) },
		"action":         func() error { _, err := b.Action(7); return err },
		"act":            func() error { _, err := b.Act(caller, 7, "reboot"); return err },
		"key":            func() error { _, err := b.Key("7"); return err },
		"key by print":   func() error { _, err := b.Key("aa:bb"); return err },
		"rename key":     func() error { _, err := b.RenameKey(caller, "7", "x"); return err },
		"delete key":     func() error { return b.DeleteKey(caller, "7") },
		"tag":            func() error { _, err := b.Tag("x"); return err },
		"delete tag":     func() error { return b.DeleteTag(caller, "x") },
		"put a tag":      func() error { return b.TagDroplets(caller, "x", nil, true) },
		"droplet action": func() error { _, err := b.DropletAction(7, 8); return err },
	} {
		t.Run(name, func(t *testing.T) {
			err := get()
			require.True(t, account.IsNotFound(err), "%v", err)
			require.EqualError(t, err, "404 not_found: The resource you were accessing could not be found.")
		})
	}
	require.Empty(t, b.ledger.Entries())
	b.AwaitBoot(t.Context(), 7, time.Hour) // returns at once
}

func TestBootsThatGoWrong(t *testing.T) {
	for name, test := range map[string]struct {
		boot   account.Boot
		fail   error
		status string
		action string
		v4     int
	}{
		"good":         {account.Boot{}, nil, "active", godo.ActionCompleted, 1},
		"late":         {account.Boot{Delay: time.Millisecond}, nil, "active", godo.ActionCompleted, 1},
		"never":        {account.Boot{Never: true}, nil, "new", godo.ActionInProgress, 0},
		"offline":      {account.Boot{Offline: true}, nil, "active", godo.ActionCompleted, 1},
		"no address":   {account.Boot{NoAddress: true}, nil, "active", godo.ActionCompleted, 0},
		"backend fail": {account.Boot{}, errors.New("no memory"), "new", "errored", 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, account.Options{})
			b.backend.set("create", test.fail)
			made, actions, err := b.CreateDroplets(caller, ask("web-1"), test.boot)
			require.NoError(t, err)
			b.AwaitBoot(t.Context(), made[0].ID, 10*time.Second)
			droplet, err := b.Droplet(made[0].ID)
			require.NoError(t, err)
			require.Equal(t, test.status, droplet.Status)
			require.Len(t, droplet.Networks.V4, test.v4)
			require.Equal(t, test.status == "new", droplet.Locked)
			action, err := b.Action(actions[0].ID)
			require.NoError(t, err)
			require.Equal(t, test.action, action.Status)
			require.NoError(t, b.DeleteDroplet(t.Context(), caller, made[0].ID))
			require.Empty(t, b.ledger.Live(ledger.KindDroplet))
		})
	}
}

func TestAVanishedDropletSaysSoInTheLedger(t *testing.T) {
	b := newBed(t, account.Options{})
	made, _, err := b.CreateDroplets(caller, ask("web-1"), account.Boot{VanishAfter: time.Millisecond})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(b.ledger.Live()) == 0 }, time.Minute, time.Millisecond)
	_, err = b.Droplet(made[0].ID)
	require.True(t, account.IsNotFound(err))
	require.Equal(t, []string{"created", "changed booted", "removed vanished"}, b.ops(ledger.KindDroplet))
	require.Empty(t, b.ledger.Records()[0].RemovedBy)
}

func TestDeletingEndsABootUnderWay(t *testing.T) {
	b := newBed(t, account.Options{})
	b.backend.hold["create"] = make(chan struct{}) // never ends by itself
	made, actions, err := b.CreateDroplets(caller, ask("web-1"), account.Boot{})
	require.NoError(t, err)
	require.NoError(t, b.DeleteDroplet(t.Context(), caller, made[0].ID))
	action, err := b.Action(actions[0].ID)
	require.NoError(t, err)
	require.Equal(t, godo.ActionCompleted, action.Status)
	require.Equal(t, []string{"created", "removed"}, b.ops(ledger.KindDroplet))
}

func TestAFailedDeletionKeepsTheDroplet(t *testing.T) {
	b := newBed(t, account.Options{})
	droplet := b.create(t, "web-1", "blue")
	b.backend.set("destroy", errors.New("device busy"))
	require.EqualError(t, b.DeleteDroplet(t.Context(), caller, droplet.ID), "destroying droplet 100000001: device busy")
	require.EqualError(t, b.DeleteDropletsByTag(t.Context(), caller, "blue"), "destroying droplet 100000001: device busy")
	require.EqualError(t, b.DestroyAll(t.Context(), "the end"), "destroying droplet 100000001: device busy")
	again, err := b.Droplet(droplet.ID)
	require.NoError(t, err)
	require.Equal(t, droplet, again)
	require.Len(t, b.ledger.Live(ledger.KindDroplet), 1)
	b.backend.set("destroy", nil)
	require.NoError(t, b.DestroyAll(t.Context(), "the end"))
	require.Equal(t, []string{"created", "changed booted", "removed the end"}, b.ops(ledger.KindDroplet))
}

func TestDeletingByTagTakesOnlyThose(t *testing.T) {
	b := newBed(t, account.Options{})
	b.create(t, "a", "blue")
	b.create(t, "b", "red")
	b.create(t, "c", "blue", "red")
	require.EqualError(t, b.DeleteDropletsByTag(t.Context(), caller, ""), "422 unprocessable_entity: tag_name can't be blank")
	require.NoError(t, b.DeleteDropletsByTag(t.Context(), caller, "green"))
	require.Len(t, b.Droplets("", ""), 3)
	require.NoError(t, b.DeleteDropletsByTag(t.Context(), caller, "blue"))
	left := b.Droplets("", "")
	require.Len(t, left, 1)
	require.Equal(t, "b", left[0].Name)
}

func TestPowerActions(t *testing.T) {
	b := newBed(t, account.Options{})
	droplet := b.create(t, "web-1")
	for _, step := range []struct{ kind, status string }{
		{"power_off", "off"}, {"power_on", "active"}, {"shutdown", "off"}, {"power_cycle", "active"}, {"reboot", "active"},
	} {
		action := b.act(t, droplet.ID, step.kind)
		require.Equal(t, godo.ActionCompleted, action.Status, step.kind)
		require.Equal(t, step.kind, action.Type)
		require.NotNil(t, action.CompletedAt)
		got, err := b.Droplet(droplet.ID)
		require.NoError(t, err)
		require.Equal(t, step.status, got.Status, step.kind)
	}
	kinds := []string{}
	for _, action := range b.Actions(droplet.ID) {
		kinds = append(kinds, action.Type)
	}
	require.Equal(t, []string{"reboot", "power_cycle", "shutdown", "power_on", "power_off", "create"}, kinds)
}

func TestPowerActionsAreRefused(t *testing.T) {
	b := newBed(t, account.Options{})
	droplet := b.create(t, "web-1")
	never, _, err := b.CreateDroplets(caller, ask("never"), account.Boot{Never: true})
	require.NoError(t, err)
	busy := b.create(t, "busy")
	b.backend.hold["power"] = make(chan struct{})
	_, err = b.Act(caller, busy.ID, "reboot")
	require.NoError(t, err)
	for name, test := range map[string]struct {
		id   int
		kind string
		want string
	}{
		"on already":     {droplet.ID, "power_on", "Droplet is already powered on."},
		"still booting":  {never[0].ID, "power_off", "Droplet already has a pending event."},
		"second action":  {busy.ID, "power_off", "Droplet already has a pending event."},
		"not supported":  {droplet.ID, "snapshot", "Type is invalid or not supported here: snapshot"},
		"nothing":        {droplet.ID, "", "Type is invalid or not supported here: "},
		"unknown server": {7, "resize", "Type is invalid or not supported here: resize"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.Act(caller, test.id, test.kind)
			require.EqualError(t, err, "422 unprocessable_entity: "+test.want)
		})
	}
	locked, err := b.Droplet(busy.ID)
	require.NoError(t, err)
	require.True(t, locked.Locked)
}

func TestAFailedPowerActionIsErrored(t *testing.T) {
	b := newBed(t, account.Options{})
	droplet := b.create(t, "web-1")
	b.backend.set("power", errors.New("stuck"))
	require.Equal(t, "errored", b.act(t, droplet.ID, "power_off").Status)
	got, err := b.Droplet(droplet.ID)
	require.NoError(t, err)
	require.Equal(t, droplet, got, "unlocked and as it was")
	b.backend.set("power", nil)
	require.Equal(t, godo.ActionCompleted, b.act(t, droplet.ID, "power_off").Status)
}

func TestAServerThatStoppedByItselfIsOff(t *testing.T) {
	b := newBed(t, account.Options{})
	droplet := b.create(t, "web-1")
	require.NoError(t, b.backend.Instant.Power(t.Context(), "d100000001", server.PowerOff))
	got, err := b.Droplet(droplet.ID)
	require.NoError(t, err)
	require.Equal(t, "off", got.Status)
	require.Equal(t, godo.ActionCompleted, b.act(t, droplet.ID, "power_on").Status)
}

func TestActionsBelongToTheirDroplet(t *testing.T) {
	b := newBed(t, account.Options{})
	one, two := b.create(t, "one"), b.create(t, "two")
	action := b.Actions(one.ID)[0]
	got, err := b.DropletAction(one.ID, action.ID)
	require.NoError(t, err)
	require.Equal(t, action, got)
	_, err = b.DropletAction(two.ID, action.ID)
	require.Equal(t, account.NotFound(), err)
	require.Len(t, b.Actions(0), 2)
	require.Equal(t, []godo.Action{}, b.Actions(7))
}

// A droplet whose computer ended as it began is off, and the ledger says why.
func TestDropletThatDoesNotBootSaysWhy(t *testing.T) {
	b := newBed(t, account.Options{})
	b.backend.set("end", errors.New("its console: Too many open files"))
	droplet := b.create(t, "a")
	require.Eventually(t, func() bool { return len(b.ops(ledger.KindDroplet)) == 3 }, time.Minute, time.Millisecond)
	require.Equal(t, []string{"created", "changed booted", "changed did not boot: its console: Too many open files"}, b.ops(ledger.KindDroplet))
	off, err := b.Droplet(droplet.ID)
	require.NoError(t, err)
	require.Equal(t, "off", off.Status)
}
