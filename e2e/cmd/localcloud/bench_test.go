package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/account"
)

var update = flag.Bool("update", false, "write the golden files")

const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH1Z5jbbZXbnaaFUMEPszCYJIIUwkwxIKwmOb18rb37V ops@example.test"

// output takes what a command prints while it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// run runs the command and returns what it prints.
func run(ctx context.Context, args ...string) (string, error) {
	var out output
	root := newRootCommand()
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	return out.String(), err
}

// bench is a running cloud that commands are run against.
type bench struct {
	*cloud.Cloud
	dir  string
	godo *godo.Client
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "my state") // a blank in it finds what is not quoted
	c, err := cloud.New(cloud.Options{StateDir: dir, Tokens: []account.Token{{Name: "demo", Secret: "marker-demo"}}})
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return &bench{Cloud: c, dir: dir, godo: c.Client(c.Token())}
}

// prints runs a command that works and returns what it prints.
func (b *bench) prints(t *testing.T, args ...string) string {
	t.Helper()
	out, err := run(t.Context(), append(args, "--state-dir", b.dir)...)
	require.NoError(t, err, args)
	return out
}

// fails runs a command that does not work and returns why; it has printed nothing but what is given.
func (b *bench) fails(t *testing.T, args ...string) string {
	t.Helper()
	out, err := run(t.Context(), append(args, "--state-dir", b.dir)...)
	require.Error(t, err, args)
	require.Empty(t, out)
	return err.Error()
}

func (b *bench) create(t *testing.T, name string, tags ...string) *godo.Droplet {
	t.Helper()
	created, _, err := b.godo.Droplets.Create(t.Context(), &godo.DropletCreateRequest{
		Name: name, Region: "nyc3", Size: "s-1vcpu-1gb", Image: godo.DropletCreateImage{Slug: "debian-12-x64"}, Tags: tags,
	})
	require.NoError(t, err)
	b.await(t, created.ID, "active")
	return created
}

// await waits until the droplet has the status.
func (b *bench) await(t *testing.T, id int, status string) {
	t.Helper()
	require.Eventually(t, func() bool {
		droplet, _, err := b.godo.Droplets.Get(t.Context(), id)
		require.NoError(t, err)
		return droplet.Status == status && !droplet.Locked
	}, time.Minute, 5*time.Millisecond)
}

var (
	clock   = regexp.MustCompile(`\b\d\d:\d\d:\d\d(\.\d+)?\b`)
	moment  = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)
	request = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
	port    = regexp.MustCompile(`127\.0\.0\.1:\d+`)
)

// stable replaces what differs from run to run.
func (b *bench) stable(text string) string {
	text = strings.ReplaceAll(text, b.dir, "DIR")
	text = moment.ReplaceAllString(text, "MOMENT")
	text = clock.ReplaceAllString(text, "HH:MM:SS")
	text = request.ReplaceAllString(text, "REQUEST")
	return port.ReplaceAllString(text, "127.0.0.1:PORT")
}

func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}
