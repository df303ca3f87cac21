package account_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/ledger"
)

// What is registered is written into authorized_keys of every server, where options are obeyed.
func TestKeysThatWouldDoMoreThanLogInAreRefused(t *testing.T) {
	b := newBed(t, account.Options{})
	key := strings.TrimSpace(publicKey(t))
	for name, text := range map[string]string{
		"command":       `command="rm -rf /" ` + key,
		"restrictions":  "no-pty,no-port-forwarding " + key,
		"from":          `from="10.0.0.0/8" ` + key,
		"authority":     "cert-authority " + key,
		"two":           key + "\n" + strings.TrimSpace(publicKey(t)),
		"two, returns":  key + "\r" + strings.TrimSpace(publicKey(t)),
		"comment first": "# mine\n" + key,
		"long":          key + strings.Repeat("x", 16<<10),
		"private":       "-----BEGIN OPENSSH PRIVATE KEY-----",
		"half":          key[:40],
		"blank":         " \n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.CreateKey(caller, godo.KeyCreateRequest{Name: "k", PublicKey: text})
			require.EqualError(t, err, "422 unprocessable_entity: Key invalid, key should be of the format `ssh-<type> <key data> <optional comment>`")
		})
	}
	require.Empty(t, b.Keys())
	_, err := b.CreateKey(caller, godo.KeyCreateRequest{Name: "k", PublicKey: key + " me@host with a comment\n"})
	require.NoError(t, err)
}

func TestAKeyIsOneLineAndOneLogin(t *testing.T) {
	l, err := ledger.Open("")
	require.NoError(t, err)
	a, err := account.New(t.Context(), account.Options{Backend: newFailing(), Ledger: l, Network: newNetwork()})
	require.NoError(t, err)
	check := func(text, name string) {
		key, err := a.CreateKey(caller, godo.KeyCreateRequest{Name: name, PublicKey: text})
		if err != nil {
			return
		}
		defer func() { require.NoError(t, a.DeleteKey(caller, strconv.Itoa(key.ID))) }()
		_, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(key.PublicKey))
		require.NoError(t, err)
		require.Empty(t, options)
		require.Empty(t, strings.TrimSpace(string(rest)), "one line, one login")
		found, err := a.Key(key.Fingerprint)
		require.NoError(t, err)
		require.Equal(t, key, found)
	}
	check(someKey, "name")
	check(`command="x" `+someKey, "")
	check("ssh-rsa AAAA\nssh-rsa BBBB", "two")
}

// entryOf is what the ledger holds of a droplet.
func entryOf(t *testing.T, id, own int, address string) ledger.Entry {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"id": own, "status": "active", "spec": map[string]any{"name": fmt.Sprintf("d%d", own), "public": address},
	})
	require.NoError(t, err)
	return ledger.Entry{Op: ledger.OpCreated, Kind: ledger.KindDroplet, ID: strconv.Itoa(id), Name: "old", Data: data}
}

func TestALedgerThatContradictsItselfIsTold(t *testing.T) {
	key := ledger.Entry{Op: ledger.OpCreated, Kind: ledger.KindKey, ID: "20000001", Data: json.RawMessage(`{"id":7}`)}
	for want, entry := range map[string]ledger.Entry{
		"rebuilding droplet 100000001 from the ledger: parsing data: it is of droplet 100000002": entryOf(t, 100000001, 100000002, "198.18.17.1"),
		"rebuilding key 20000001 from the ledger: parsing data: it is of key 7":                  key,
	} {
		l, err := ledger.Open(filepath.Join(t.TempDir(), "ledger.jsonl"))
		require.NoError(t, err)
		require.NoError(t, l.Append(entry))
		_, err = account.New(t.Context(), account.Options{Backend: newFailing(), Ledger: l, Network: newNetwork()})
		require.EqualError(t, err, want)
		require.NoError(t, l.Close())
	}
}

// A cloud that got another slot than before must not go on counting in the old one: its ids, and with
// them the names of its servers, may be another cloud's by now.
func TestIDsStayInTheSlotOfThisRun(t *testing.T) {
	for name, test := range map[string]struct {
		slot, old, next int
	}{
		"the same slot":     {1, 110_000_007, 110_000_008},
		"a lower one":       {0, 110_000_007, 100_000_001},
		"a higher one":      {2, 110_000_007, 120_000_001},
		"nothing yet there": {3, 100_000_001, 130_000_001},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := ledger.Open("")
			require.NoError(t, err)
			require.NoError(t, l.Append(entryOf(t, test.old, test.old, "198.18.17.9")))
			a, err := account.New(t.Context(), account.Options{Backend: newFailing(), Ledger: l, Network: newNetwork(), Slot: test.slot})
			require.NoError(t, err)
			defer a.Close()
			made, _, err := a.CreateDroplets(caller, ask("new"), account.Boot{})
			require.NoError(t, err)
			require.Equal(t, test.next, made[0].ID)
		})
	}
}

func TestSmallRangesAreRefusedNotDividedByZero(t *testing.T) {
	for prefix, want := range map[string]string{
		"198.18.1.0/24": "allocating addresses: the range is too small",
		"198.18.1.0/32": "allocating addresses: the range is too small",
		"198.18.0.0/23": "",
	} {
		network := &account.Network{Public: netip.MustParsePrefix(prefix), Private: netip.MustParsePrefix("198.18.128.0/23")}
		_, err := network.Allocate()
		if want != "" {
			require.EqualError(t, err, want)
			continue
		}
		require.NoError(t, err)
		for range 253 {
			_, err = network.Allocate()
			require.NoError(t, err)
		}
		_, err = network.Allocate()
		require.EqualError(t, err, "allocating addresses: none left")
	}
}

// A claim of one of the host's own addresses is odd, and costs no other address.
func TestAClaimBelowTheServersKeepsTheRestFree(t *testing.T) {
	network := &account.Network{Public: netip.MustParsePrefix("198.18.0.0/23"), Private: netip.MustParsePrefix("198.18.128.0/23")}
	network.Claim(netip.MustParseAddr("198.18.0.1"))
	seen := map[netip.Addr]bool{}
	for range 254 {
		given, err := network.Allocate()
		require.NoError(t, err)
		require.False(t, seen[given.Public])
		seen[given.Public] = true
	}
	network.Release(netip.MustParseAddr("198.18.1.77"))
	given, err := network.Allocate()
	require.NoError(t, err)
	require.Equal(t, "198.18.1.77", given.Public.String())
}

func TestAddressesAreUniqueUnderConcurrency(t *testing.T) {
	network := newNetwork()
	var group sync.WaitGroup
	given := make(chan netip.Addr, 400)
	for range 8 {
		group.Go(func() {
			for range 50 {
				got, err := network.Allocate()
				require.NoError(t, err)
				given <- got.Public
			}
		})
	}
	group.Wait()
	close(given)
	seen := map[netip.Addr]bool{}
	for address := range given {
		require.False(t, seen[address], address)
		seen[address] = true
	}
	require.Len(t, seen, 400)
}

func TestASecretOfSeveralTokensIsJudgedAlike(t *testing.T) {
	past := time.Now().Add(-time.Hour)
	for name, test := range map[string]struct {
		tokens []account.Token
		secret string
		want   string
		ok     bool
	}{
		"first by name":     {[]account.Token{{Name: "b", Secret: "x"}, {Name: "a", Secret: "x"}}, "x", "a", true},
		"one is revoked":    {[]account.Token{{Name: "a", Secret: "x", Revoked: true}, {Name: "b", Secret: "x"}}, "x", "b", true},
		"one is over":       {[]account.Token{{Name: "a", Secret: "x", Expires: past}, {Name: "b", Secret: "x"}}, "x", "b", true},
		"both are":          {[]account.Token{{Name: "b", Secret: "x", Expires: past}, {Name: "a", Secret: "x", Revoked: true}}, "x", "a", false},
		"unknown":           {[]account.Token{{Name: "a", Secret: "x"}}, "y", "", false},
		"part of one":       {[]account.Token{{Name: "a", Secret: "xyz"}}, "xy", "", false},
		"none, and none is": {[]account.Token{{Name: "a"}}, "", "", false},
		"good until later":  {[]account.Token{{Name: "a", Secret: "x", Expires: time.Now().Add(time.Hour)}}, "x", "a", true},
	} {
		t.Run(name, func(t *testing.T) {
			tokens := account.NewTokens(test.tokens...)
			for range 10 { // maps have no order
				token, ok := tokens.Check(test.secret)
				require.Equal(t, test.want, token.Name)
				require.Equal(t, test.ok, ok)
			}
		})
	}
}

func TestTokensUnderConcurrency(t *testing.T) {
	tokens := account.NewTokens()
	var group sync.WaitGroup
	added := make(chan error, 16)
	for i := range 16 {
		group.Go(func() { added <- tokens.Add(account.Token{Name: "one", Secret: strconv.Itoa(i)}) })
		group.Go(func() { tokens.Check("7"); tokens.List(); tokens.Secret("one") })
	}
	group.Wait()
	close(added)
	good := 0
	for err := range added {
		if err == nil {
			good++
			continue
		}
		require.EqualError(t, err, `adding token: the name "one" is taken`)
	}
	require.Equal(t, 1, good)
}

// TestADropletsNameCanBeAHosts asks for names as clients send them: what is taken can be a host's.
func TestADropletsNameCanBeAHosts(t *testing.T) {
	l, err := ledger.Open("")
	require.NoError(t, err)
	a, err := account.New(t.Context(), account.Options{Backend: newFailing(), Ledger: l, Network: newNetwork()})
	require.NoError(t, err)
	check := func(name string) {
		made, _, err := a.CreateDroplets(caller, ask(name), account.Boot{})
		if err != nil {
			require.EqualError(t, err, "422 unprocessable_entity: Name Only valid hostname characters are allowed. (a-z, A-Z, 0-9, . and -)")
			return
		}
		require.Regexp(t, `\A[a-zA-Z0-9.-]{1,255}\z`, name)
		require.Equal(t, name, made[0].Name)
		require.NoError(t, a.DeleteDroplet(t.Context(), caller, made[0].ID))
	}
	for _, name := range []string{"web-1", "a.b", "", "-a", "a-", "ä", "a b", "a\n", strings.Repeat("a", 256)} {
		check(name)
	}
}

func TestManyAtOnceAgreeWithTheLedger(t *testing.T) {
	b := newBed(t, account.Options{})
	var group sync.WaitGroup
	for worker := range 6 {
		group.Go(func() {
			for round := range 8 {
				name := fmt.Sprintf("w%d-%d", worker, round)
				made, _, err := b.CreateDroplets(caller, ask(name), account.Boot{})
				require.NoError(t, err)
				b.AwaitBoot(t.Context(), made[0].ID, 10*time.Second)
				if round%2 == 0 {
					require.NoError(t, b.DeleteDroplet(t.Context(), caller, made[0].ID))
				}
			}
		})
	}
	group.Wait()
	require.Len(t, b.Droplets("", ""), 24)
	require.Len(t, b.ledger.Live(ledger.KindDroplet), 24)
	addresses := map[string]bool{}
	for _, droplet := range b.Droplets("", "") {
		address, err := droplet.PublicIPv4()
		require.NoError(t, err)
		require.False(t, addresses[address])
		addresses[address] = true
		require.Equal(t, "active", droplet.Status)
	}
	require.Equal(t, b.Droplets("", ""), b.restart(t).Droplets("", ""))
}
