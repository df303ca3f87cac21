package account_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/server"
)

func TestARestartShowsTheSame(t *testing.T) {
	b := newBed(t, account.Options{})
	_, err := b.CreateKey(caller, godo.KeyCreateRequest{Name: "k", PublicKey: someKey})
	require.NoError(t, err)
	request := ask("full")
	request.Tags, request.Keys, request.IPv6, request.PrivateNetworking = []string{"blue"}, []string{"20000001"}, true, true
	made, _, err := b.CreateDroplets(caller, request, account.Boot{})
	require.NoError(t, err)
	b.AwaitBoot(t.Context(), made[0].ID, 10*time.Second)
	off := b.create(t, "off")
	b.act(t, off.ID, "power_off")
	gone := b.create(t, "gone")
	require.NoError(t, b.DeleteDroplet(t.Context(), caller, gone.ID))
	require.NoError(t, b.TagDroplets(caller, "blue", []int{off.ID}, true))

	again := b.restart(t)
	before, after := b.Droplets("", ""), again.Droplets("", "")
	for i := range before { // the ledger is finer than the API
		require.Equal(t, before[i], after[i])
	}
	require.Len(t, after, 2)
	require.Equal(t, "off", after[1].Status)
	require.Equal(t, b.Keys(), again.Keys())
	require.Equal(t, b.Tags(), again.Tags())
	next := again.create(t, "next")
	require.Equal(t, gone.ID+1, next.ID, "no id is used twice")
	require.NotContains(t, []any{after[0].Networks.V4[1].IPAddress, after[1].Networks.V4[0].IPAddress}, next.Networks.V4[0].IPAddress)
}

func TestWhatARestartFindsOfABoot(t *testing.T) {
	for name, test := range map[string]struct {
		adopt error
		live  bool
		ops   []string
	}{
		"it goes on":       {nil, true, []string{"created", "changed restart"}},
		"nothing was left": {server.ErrNotFound, false, []string{"created", "removed lost in a restart"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, account.Options{})
			b.backend.hold["create"] = make(chan struct{})
			made, _, err := b.CreateDroplets(caller, ask("web-1"), account.Boot{})
			require.NoError(t, err)
			b.backend.set("adopt", test.adopt)
			again := b.restart(t)
			require.Equal(t, test.ops, again.ops(ledger.KindDroplet))
			droplet, err := again.Droplet(made[0].ID)
			require.Equal(t, test.live, err == nil)
			if test.live {
				require.Equal(t, "active", droplet.Status)
			}
		})
	}
}

func TestCloseEndsBootsAndKeepsDroplets(t *testing.T) {
	b := newBed(t, account.Options{BootDelay: time.Hour})
	made, _, err := b.CreateDroplets(caller, ask("a", "b"), account.Boot{})
	require.NoError(t, err)
	b.Close()
	b.Close()
	require.Len(t, b.Droplets("", ""), 2)
	require.NoError(t, b.DeleteDroplet(t.Context(), caller, made[0].ID))
}

func TestADamagedLedgerIsToldNotServed(t *testing.T) {
	for name, test := range map[string]struct {
		entry ledger.Entry
		want  string
	}{
		"key id":      {ledger.Entry{Kind: ledger.KindKey, ID: "x", Data: json.RawMessage(`{}`)}, `rebuilding key x from the ledger: parsing id: strconv.Atoi: parsing "x": invalid syntax`},
		"key data":    {ledger.Entry{Kind: ledger.KindKey, ID: "1"}, "rebuilding key 1 from the ledger: parsing data: unexpected end of JSON input"},
		"key shape":   {ledger.Entry{Kind: ledger.KindKey, ID: "1", Data: json.RawMessage(`[]`)}, "rebuilding key 1 from the ledger: parsing data: json: cannot unmarshal array into Go value of type godo.Key"},
		"droplet id":  {ledger.Entry{Kind: ledger.KindDroplet, ID: ""}, `rebuilding droplet  from the ledger: parsing id: strconv.Atoi: parsing "": invalid syntax`},
		"no address":  {ledger.Entry{Kind: ledger.KindDroplet, ID: "1", Data: json.RawMessage(`{}`)}, "rebuilding droplet 1 from the ledger: parsing data: it tells no IPv4 address"},
		"no data":     {ledger.Entry{Kind: ledger.KindDroplet, ID: "1"}, "rebuilding droplet 1 from the ledger: parsing data: unexpected end of JSON input"},
		"odd address": {ledger.Entry{Kind: ledger.KindDroplet, ID: "1", Data: json.RawMessage(`{"spec":{"public":"2001:db8::1"}}`)}, "rebuilding droplet 1 from the ledger: parsing data: it tells no IPv4 address"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := ledger.Open(filepath.Join(t.TempDir(), "ledger.jsonl"))
			require.NoError(t, err)
			test.entry.Op = ledger.OpCreated
			require.NoError(t, l.Append(test.entry))
			_, err = account.New(t.Context(), account.Options{Backend: newFailing(), Ledger: l, Network: newNetwork()})
			require.EqualError(t, err, test.want)
			require.NoError(t, l.Close())
		})
	}
}

func TestServersAndFaultsOfTheLedgerAreNotTheAccounts(t *testing.T) {
	l, err := ledger.Open("")
	require.NoError(t, err)
	require.NoError(t, l.Append(ledger.Entry{Op: ledger.OpCreated, Kind: ledger.KindServer, ID: "odd"}))
	require.NoError(t, l.Append(ledger.Entry{Op: ledger.OpFault, Cause: "fault-1"}))
	a, err := account.New(t.Context(), account.Options{Backend: newFailing(), Ledger: l, Network: newNetwork()})
	require.NoError(t, err)
	require.Empty(t, a.Droplets("", ""))
	a.Close()
}

func TestAddressesOfAnotherRangeAreLeftAlone(t *testing.T) {
	network := newNetwork()
	for _, odd := range []netip.Addr{{}, netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("198.18.1.1")} {
		network.Claim(odd)
		network.Release(odd)
	}
	given, err := network.Allocate()
	require.NoError(t, err)
	require.Equal(t, account.Addresses{
		Public: netip.MustParseAddr("198.18.17.1"), Private: netip.MustParseAddr("198.18.145.1"), IPv6: netip.MustParseAddr("2001:db8:d00d::101"),
	}, given)
}

func TestTokens(t *testing.T) {
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	tokens := account.NewTokens(
		account.Token{Name: "good", Secret: "s-good"}, account.Token{Name: "revoked", Secret: "s-revoked", Revoked: true},
		account.Token{Name: "expired", Secret: "s-expired", Expires: past}, account.Token{Name: "later", Secret: "s-later", Expires: future},
		account.Token{Name: "empty"},
	)
	for secret, want := range map[string]struct {
		name string
		ok   bool
	}{
		"s-good": {"good", true}, "s-revoked": {"revoked", false}, "s-expired": {"expired", false}, "s-later": {"later", true},
		"": {"", false}, "s-goo": {"", false}, "S-GOOD": {"", false}, "s-good ": {"", false},
	} {
		token, ok := tokens.Check(secret)
		require.Equal(t, want.ok, ok, secret)
		require.Equal(t, want.name, token.Name, secret)
	}
	require.NoError(t, tokens.Restore("expired"))
	_, ok := tokens.Check("s-expired")
	require.True(t, ok)
	require.NoError(t, tokens.Expire("good", past))
	_, ok = tokens.Check("s-good")
	require.False(t, ok)
	require.NoError(t, tokens.Revoke("later"))
	_, ok = tokens.Check("s-later")
	require.False(t, ok)
	require.Equal(t, "s-later", tokens.Secret("later"))
	require.Empty(t, tokens.Secret("none"))
}

func TestTokensAreNamedOnceAndKnown(t *testing.T) {
	tokens := account.NewTokens(account.Token{Name: "b", Secret: "1"})
	require.NoError(t, tokens.Add(account.Token{Name: "a", Secret: "2"}))
	require.EqualError(t, tokens.Add(account.Token{Name: "a", Secret: "3"}), `adding token: the name "a" is taken`)
	require.EqualError(t, tokens.Add(account.Token{Secret: "3"}), "adding token: it has no name")
	require.Equal(t, []account.Token{{Name: "a", Secret: "2"}, {Name: "b", Secret: "1"}}, tokens.List())
	for _, err := range []error{tokens.Revoke("c"), tokens.Restore("c"), tokens.Expire("c", time.Time{})} {
		require.EqualError(t, err, `changing token: no token is named "c"`)
	}
	tokens.Set(account.Token{Name: "b", Secret: "4"})
	require.Equal(t, "4", tokens.Secret("b"))
}

func TestSecretsLookRealAndDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		secret := account.NewSecret()
		require.Regexp(t, `^dop_v1_[0-9a-f]{64}$`, secret)
		require.False(t, seen[secret])
		seen[secret] = true
	}
}

func TestErrorsAreTheAPIs(t *testing.T) {
	for err, want := range map[*account.Error]string{
		account.NotFound():            `{"id":"not_found","message":"The resource you were accessing could not be found."}`,
		account.Unauthorized():        `{"id":"Unauthorized","message":"Unable to authenticate you"}`,
		account.Forbidden():           `{"id":"Forbidden","message":"You are not authorized to perform this operation"}`,
		account.QuotaExceeded():       `{"id":"unprocessable_entity","message":"creating this/these droplet(s) will exceed your droplet limit"}`,
		account.Unprocessable("x is"): `{"id":"unprocessable_entity","message":"x is"}`,
	} {
		encoded, marshalErr := json.Marshal(err)
		require.NoError(t, marshalErr)
		require.JSONEq(t, want, string(encoded))
		require.Equal(t, err.Status == 404, account.IsNotFound(fmt.Errorf("asking: %w", err)))
	}
	require.False(t, account.IsNotFound(nil))
	require.False(t, account.IsNotFound(server.ErrNotFound))
}

func TestTheCatalogAgreesWithItself(t *testing.T) {
	requireGolden(t, "sizes.json", account.Sizes())
	requireGolden(t, "images.json", account.Images())
	sizes := map[string]bool{}
	for _, size := range account.Sizes() {
		found, ok := account.FindSize(size.Slug)
		require.True(t, ok)
		require.Equal(t, size, found)
		require.False(t, sizes[size.Slug], "twice: %s", size.Slug)
		sizes[size.Slug] = true
	}
	for _, region := range account.Regions() {
		require.NotEmpty(t, region.Name, region.Slug)
		require.Len(t, region.Sizes, len(sizes))
		_, ok := account.FindRegion(region.Slug)
		require.True(t, ok)
	}
	for _, image := range account.Images() {
		for _, identifier := range []string{image.Slug, fmt.Sprint(image.ID)} {
			found, ok := account.FindImage(identifier)
			require.True(t, ok)
			require.Equal(t, image, found)
		}
	}
	_, ok := account.FindImage("")
	require.False(t, ok)
}
