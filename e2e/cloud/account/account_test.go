package account_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// caller is who does everything in these tests.
var caller = account.Caller{Token: "default", RequestID: "r-1"}

// failing is an instant backend whose operations can be told to fail or wait.
type failing struct {
	*server.Instant
	mu   sync.Mutex
	fail map[string]error         // by operation
	hold map[string]chan struct{} // an operation waits until its channel is closed
}

func newFailing() *failing {
	return &failing{Instant: server.NewInstant(), fail: map[string]error{}, hold: map[string]chan struct{}{}}
}

func (f *failing) set(op string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail[op] = err
}

func (f *failing) meet(ctx context.Context, op string) error {
	f.mu.Lock()
	err, hold := f.fail[op], f.hold[op]
	f.mu.Unlock()
	if hold == nil {
		return err
	}
	select {
	case <-hold:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *failing) Create(ctx context.Context, spec server.Spec) error {
	if err := f.meet(ctx, "create"); err != nil {
		return err
	}
	return f.Instant.Create(ctx, spec)
}

func (f *failing) Adopt(ctx context.Context, spec server.Spec, on bool) error {
	if err := f.meet(ctx, "adopt"); err != nil {
		return err
	}
	return f.Instant.Adopt(ctx, spec, on)
}

func (f *failing) Power(ctx context.Context, name string, change server.Power) error {
	if err := f.meet(ctx, "power"); err != nil {
		return err
	}
	return f.Instant.Power(ctx, name, change)
}

func (f *failing) Destroy(ctx context.Context, name string) error {
	if err := f.meet(ctx, "destroy"); err != nil {
		return err
	}
	return f.Instant.Destroy(ctx, name)
}

// AwaitEnd is the end of a droplet for which one was set.
func (f *failing) AwaitEnd(ctx context.Context, name string) string {
	if err := f.meet(ctx, "end"); err != nil {
		_ = f.Instant.Power(ctx, name, server.PowerOff)
		return err.Error()
	}
	return ""
}

// bed is an account with the parts around it.
type bed struct {
	*account.Account
	backend *failing
	ledger  *ledger.Ledger
	path    string
}

// newBed returns an empty account that keeps its ledger in a file.
func newBed(t *testing.T, opts account.Options) *bed {
	t.Helper()
	return openBed(t, filepath.Join(t.TempDir(), "ledger.jsonl"), newFailing(), opts)
}

func openBed(t *testing.T, path string, backend *failing, opts account.Options) *bed {
	t.Helper()
	l, err := ledger.Open(path)
	require.NoError(t, err)
	opts.Backend, opts.Ledger = backend, l
	if opts.Network == nil {
		opts.Network = newNetwork()
	}
	a, err := account.New(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { a.Close(); require.NoError(t, l.Close()) })
	return &bed{Account: a, backend: backend, ledger: l, path: path}
}

// restart returns the account that the ledger describes, on the same backend.
func (b *bed) restart(t *testing.T) *bed {
	t.Helper()
	b.Close()
	return openBed(t, b.path, b.backend, account.Options{})
}

// create makes one droplet and waits for the end of its boot.
func (b *bed) create(t *testing.T, name string, tags ...string) godo.Droplet {
	t.Helper()
	ask := ask(name)
	ask.Tags = tags
	made, _, err := b.CreateDroplets(caller, ask, account.Boot{})
	require.NoError(t, err)
	b.AwaitBoot(t.Context(), made[0].ID, 10*time.Second)
	got, err := b.Droplet(made[0].ID)
	require.NoError(t, err)
	return got
}

// act does a power action and waits for its end.
func (b *bed) act(t *testing.T, id int, kind string) godo.Action {
	t.Helper()
	action, err := b.Act(caller, id, kind)
	require.NoError(t, err)
	require.Equal(t, godo.ActionInProgress, action.Status)
	require.Eventually(t, func() bool {
		action, err = b.Action(action.ID)
		require.NoError(t, err)
		return action.Status != godo.ActionInProgress
	}, time.Minute, time.Millisecond)
	return action
}

func ask(names ...string) account.DropletRequest {
	return account.DropletRequest{Names: names, Region: "nyc3", Size: "s-1vcpu-1gb", Image: "debian-12-x64"}
}

func publicKey(t *testing.T) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	key, err := ssh.NewPublicKey(public)
	require.NoError(t, err)
	return string(ssh.MarshalAuthorizedKey(key))
}

func (b *bed) ops(kind ledger.Kind) []string {
	var ops []string
	for _, entry := range b.ledger.Entries() {
		if entry.Kind == kind {
			ops = append(ops, strings.TrimSuffix(string(entry.Op)+" "+entry.Cause, " "))
		}
	}
	return ops
}

func TestInfoTellsTheLimit(t *testing.T) {
	b := newBed(t, account.Options{})
	require.Equal(t, 10_000, b.Info().DropletLimit)
	b.SetDropletLimit(3)
	require.Equal(t, 3, b.Info().DropletLimit)
	require.Equal(t, "active", b.Info().Status)
}

// refusedCreations are requests the real API refuses, with its words.
func refusedCreations() map[string]struct {
	change func(*account.DropletRequest)
	want   string
} {
	type change = func(*account.DropletRequest)
	name := func(name string) change { return func(r *account.DropletRequest) { r.Names = []string{name} } }
	const hostnames = "Name Only valid hostname characters are allowed. (a-z, A-Z, 0-9, . and -)"
	const tags = "Tag name may only contain letters, numbers, colons, dashes, and underscores"
	tag := func(tag string) change { return func(r *account.DropletRequest) { r.Tags = []string{"good", tag} } }
	return map[string]struct {
		change func(*account.DropletRequest)
		want   string
	}{
		"no name":         {func(r *account.DropletRequest) { r.Names = nil }, "Name can't be blank"},
		"eleven names":    {func(r *account.DropletRequest) { r.Names = strings.Split("a,b,c,d,e,f,g,h,i,j,k", ",") }, "You can create a maximum of 10 Droplets per request."},
		"blank name":      {name(""), hostnames},
		"underscore":      {name("a_b"), hostnames},
		"leading dash":    {name("-a"), hostnames},
		"trailing dot":    {name("a."), hostnames},
		"newline":         {name("a\n"), hostnames},
		"umlaut":          {name("ä"), hostnames},
		"shell":           {name("a;reboot"), hostnames},
		"long":            {name(strings.Repeat("a", 256)), hostnames},
		"second name bad": {func(r *account.DropletRequest) { r.Names = []string{"a", "b c"} }, hostnames},
		"no region":       {func(r *account.DropletRequest) { r.Region = "" }, "You specified an invalid region for Droplet creation."},
		"region":          {func(r *account.DropletRequest) { r.Region = "NYC3" }, "You specified an invalid region for Droplet creation."},
		"size":            {func(r *account.DropletRequest) { r.Size = "s-1vcpu" }, "You specified an invalid size for Droplet creation."},
		"image":           {func(r *account.DropletRequest) { r.Image = "dos-6" }, "You specified an invalid image for Droplet creation."},
		"no image":        {func(r *account.DropletRequest) { r.Image = "" }, "You specified an invalid image for Droplet creation."},
		"user data":       {func(r *account.DropletRequest) { r.UserData = strings.Repeat("x", 64<<10+1) }, "User data is too long (maximum is 65536 bytes)"},
		"blank tag":       {tag(""), tags},
		"blank in tag":    {tag("a b"), tags},
		"dot in tag":      {tag("a.b"), tags},
		"long tag":        {tag(strings.Repeat("a", 256)), tags},
		"unknown key":     {func(r *account.DropletRequest) { r.Keys = []string{"7"} }, "7 are invalid key identifiers for Droplet creation."},
		"unknown print":   {func(r *account.DropletRequest) { r.Keys = []string{"aa:bb"} }, "aa:bb are invalid key identifiers for Droplet creation."},
	}
}

func TestCreationsAreRefusedAsTheAPIDoes(t *testing.T) {
	b := newBed(t, account.Options{})
	for name, test := range refusedCreations() {
		t.Run(name, func(t *testing.T) {
			request := ask("web-1")
			test.change(&request)
			_, _, err := b.CreateDroplets(caller, request, account.Boot{})
			require.EqualError(t, err, "422 unprocessable_entity: "+test.want)
		})
	}
	require.Empty(t, b.Droplets("", ""))
	require.Empty(t, b.Tags(), "not even a tag is left of a refused request")
	require.Empty(t, b.ledger.Entries())
}

func TestCreationsAtTheLimitsAreGood(t *testing.T) {
	b := newBed(t, account.Options{})
	for name, change := range map[string]func(*account.DropletRequest){
		"ten names":     func(r *account.DropletRequest) { r.Names = strings.Split("a,b,c,d,e,f,g,h,i,j", ",") },
		"one letter":    func(r *account.DropletRequest) { r.Names = []string{"x"} },
		"upper case":    func(r *account.DropletRequest) { r.Names = []string{"Web.Example.COM"} },
		"long name":     func(r *account.DropletRequest) { r.Names = []string{strings.Repeat("a", 255)} },
		"image by id":   func(r *account.DropletRequest) { r.Image = "152643100" },
		"all user data": func(r *account.DropletRequest) { r.UserData = strings.Repeat("x", 64<<10) },
		"long tag":      func(r *account.DropletRequest) { r.Tags = []string{strings.Repeat("a", 255), "drover:uid-1_2"} },
	} {
		t.Run(name, func(t *testing.T) {
			request := ask("web-1")
			change(&request)
			made, actions, err := b.CreateDroplets(caller, request, account.Boot{})
			require.NoError(t, err)
			require.Len(t, made, len(request.Names))
			require.Len(t, actions, len(request.Names))
			for i, droplet := range made {
				require.Equal(t, request.Names[i], droplet.Name)
				require.Equal(t, droplet.ID, actions[i].ResourceID)
				data, err := b.UserData(droplet.ID)
				require.NoError(t, err)
				require.Equal(t, request.UserData, data)
			}
		})
	}
}

func TestQuotaCountsWhatIsThere(t *testing.T) {
	b := newBed(t, account.Options{DropletLimit: 3})
	first := b.create(t, "one")
	_, _, err := b.CreateDroplets(caller, ask("two", "three", "four"), account.Boot{})
	require.Equal(t, account.QuotaExceeded(), err)
	require.Len(t, b.Droplets("", ""), 1, "all or none")
	_, _, err = b.CreateDroplets(caller, ask("two", "three"), account.Boot{})
	require.NoError(t, err)
	require.NoError(t, b.DeleteDroplet(t.Context(), caller, first.ID))
	b.create(t, "again")
	b.SetDropletLimit(0)
	_, _, err = b.CreateDroplets(caller, ask("none"), account.Boot{})
	require.Equal(t, account.QuotaExceeded(), err)
}

func TestNoHalfRequestIsLeftWhenAddressesRunOut(t *testing.T) {
	network := &account.Network{
		Public: netip.MustParsePrefix("198.18.16.0/23"), Private: netip.MustParsePrefix("198.18.144.0/23"), Gateway: netip.MustParseAddr("198.18.0.1"),
	}
	for range 252 { // of 254
		_, err := network.Allocate()
		require.NoError(t, err)
	}
	b := newBed(t, account.Options{Network: network})
	request := ask("a", "b", "c")
	request.Tags = []string{"new"}
	_, _, err := b.CreateDroplets(caller, request, account.Boot{})
	require.EqualError(t, err, "422 unprocessable_entity: allocating addresses: none left")
	require.Empty(t, b.Droplets("", ""))
	require.Empty(t, b.ledger.Entries())
	_, _, err = b.CreateDroplets(caller, ask("a", "b"), account.Boot{})
	require.NoError(t, err, "the addresses were given back")
}

func TestQuotaHoldsUnderConcurrency(t *testing.T) {
	b := newBed(t, account.Options{DropletLimit: 20})
	var clients sync.WaitGroup
	var mu sync.Mutex
	made, refused := 0, 0
	for range 8 {
		clients.Go(func() {
			for range 10 {
				_, _, err := b.CreateDroplets(caller, ask("x"), account.Boot{})
				mu.Lock()
				if err == nil {
					made++
				} else if errors.As(err, new(*account.Error)) {
					refused++
				}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	require.Equal(t, 20, made)
	require.Equal(t, 60, refused)
	addresses := map[string]bool{}
	for _, droplet := range b.Droplets("", "") {
		b.AwaitBoot(t.Context(), droplet.ID, 10*time.Second)
		got, err := b.Droplet(droplet.ID)
		require.NoError(t, err)
		public, err := got.PublicIPv4()
		require.NoError(t, err)
		addresses[public] = true
	}
	require.Len(t, addresses, 20)
}

func TestADropletIsDeletedOnce(t *testing.T) {
	b := newBed(t, account.Options{})
	droplet := b.create(t, "web-1")
	var clients sync.WaitGroup
	results := make(chan error, 8)
	for range 8 {
		clients.Go(func() { results <- b.DeleteDroplet(context.Background(), caller, droplet.ID) })
	}
	clients.Wait()
	close(results)
	good := 0
	for err := range results {
		if err == nil {
			good++
			continue
		}
		require.True(t, account.IsNotFound(err))
	}
	require.Equal(t, 1, good)
	require.Equal(t, []string{"created", "changed booted", "removed"}, b.ops(ledger.KindDroplet))
}
