package account_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/ledger"
)

// TestAnyHistoryIsRebuiltFromTheLedger does random things to an account and
// restarts it now and then: what the API shows never changes by that, and the
// ledger always tells exactly what exists.
func TestAnyHistoryIsRebuiltFromTheLedger(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			b := newBed(t, account.Options{})
			for range 4 {
				for range 15 {
					doSomething(t, b, random)
				}
				requireLedgerAgrees(t, b)
				droplets, keys, tags := b.Droplets("", ""), b.Keys(), b.Tags()
				b = b.restart(t)
				require.Equal(t, droplets, b.Droplets("", ""))
				require.Equal(t, keys, b.Keys())
				require.Equal(t, tags, b.Tags())
			}
		})
	}
}

// doSomething makes one random change; those that make no sense are refused.
func doSomething(t *testing.T, b *bed, random *rand.Rand) {
	t.Helper()
	tag := "tag-" + strconv.Itoa(random.IntN(4))
	droplet, key := 0, "7"
	if all := b.Droplets("", ""); len(all) > 0 {
		droplet = all[random.IntN(len(all))].ID
	}
	if all := b.Keys(); len(all) > 0 {
		key = all[random.IntN(len(all))].Fingerprint
	}
	switch random.IntN(11) {
	case 0, 1, 2:
		b.create(t, "web-"+strconv.Itoa(random.IntN(5)), tag)
	case 3:
		_ = b.DeleteDroplet(t.Context(), caller, droplet)
	case 4:
		_ = b.TagDroplets(caller, tag, []int{droplet}, random.IntN(2) == 0)
	case 5:
		_ = b.DeleteTag(caller, tag)
	case 6:
		_, err := b.CreateKey(caller, godo.KeyCreateRequest{Name: "k", PublicKey: publicKey(t)})
		require.NoError(t, err)
	case 7:
		_ = b.DeleteKey(caller, key)
	case 8:
		_, _ = b.RenameKey(caller, key, "k"+strconv.Itoa(random.IntN(100)))
	case 9:
		_ = b.DeleteDropletsByTag(t.Context(), caller, tag)
	case 10:
		if droplet != 0 {
			b.act(t, droplet, []string{"power_off", "shutdown", "reboot", "power_cycle"}[random.IntN(4)])
		}
	}
}

func requireLedgerAgrees(t *testing.T, b *bed) {
	t.Helper()
	type thing struct {
		id, name string
		tags     []string
	}
	collect := func(kind ledger.Kind) (things []thing) {
		for _, record := range b.ledger.Live(kind) {
			things = append(things, thing{record.ID, record.Name, append([]string{}, record.Tags...)})
		}
		return things
	}
	var droplets, keys []thing
	for _, droplet := range b.Droplets("", "") {
		droplets = append(droplets, thing{strconv.Itoa(droplet.ID), droplet.Name, droplet.Tags})
	}
	for _, key := range b.Keys() {
		keys = append(keys, thing{strconv.Itoa(key.ID), key.Name, []string{}})
	}
	require.Equal(t, droplets, collect(ledger.KindDroplet))
	require.Equal(t, keys, collect(ledger.KindKey))
	require.Len(t, b.ledger.Live(ledger.KindTag), len(b.Tags()))
}

func TestWhoDidWhatIsInTheLedger(t *testing.T) {
	b := newBed(t, account.Options{})
	maker := account.Caller{Token: "maker", RequestID: "r-1"}
	remover := account.Caller{Token: "remover", RequestID: "r-2"}
	request := ask("web-1")
	request.Tags = []string{"blue"}
	made, _, err := b.CreateDroplets(maker, request, account.Boot{})
	require.NoError(t, err)
	b.AwaitBoot(t.Context(), made[0].ID, 10*time.Second)
	key, err := b.CreateKey(maker, godo.KeyCreateRequest{Name: "k", PublicKey: someKey})
	require.NoError(t, err)
	require.NoError(t, b.DeleteDroplet(t.Context(), remover, made[0].ID))
	require.NoError(t, b.DeleteKey(remover, key.Fingerprint))
	require.NoError(t, b.DeleteTag(remover, "blue"))
	records := b.ledger.Records()
	require.Len(t, records, 3)
	for _, record := range records {
		require.Equal(t, []string{"maker", "r-1", "remover", "r-2"},
			[]string{record.Token, record.RequestID, record.RemovedBy, record.RemovedRequestID}, record.Kind)
		require.False(t, record.Removed.Before(record.Created))
	}
}

func TestUserDataIsNeverWrittenDown(t *testing.T) {
	b := newBed(t, account.Options{})
	request := ask("web-1")
	request.UserData = "#cloud-config\npassword: hunter2\n"
	made, _, err := b.CreateDroplets(caller, request, account.Boot{})
	require.NoError(t, err)
	b.AwaitBoot(t.Context(), made[0].ID, 10*time.Second)
	for _, entry := range b.ledger.Entries() {
		require.NotContains(t, string(entry.Data), "hunter2")
	}
	data, err := b.restart(t).UserData(made[0].ID)
	require.NoError(t, err)
	require.Empty(t, data, "a restart does not know it any more")
}
