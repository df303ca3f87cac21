package cloud_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/admin"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/server"
)

func TestOptionsSayWhatIsWrong(t *testing.T) {
	for name, test := range map[string]struct {
		opts cloud.Options
		want string
	}{
		"backend":       {cloud.Options{Backend: "docker"}, `there is no backend "docker"`},
		"no state":      {cloud.Options{Backend: cloud.BackendNspawn, RootFSDir: "x"}, "the nspawn backend needs a state and a root file system directory"},
		"no root":       {cloud.Options{Backend: cloud.BackendNspawn, StateDir: "x"}, "the nspawn backend needs a state and a root file system directory"},
		"host name":     {cloud.Options{Bind: "localhost"}, `ParseAddr("localhost"): unable to parse IP`},
		"boot delay":    {cloud.Options{BootDelay: -1}, "boot delay and limits cannot be negative"},
		"quota":         {cloud.Options{DropletLimit: -1}, "boot delay and limits cannot be negative"},
		"rate":          {cloud.Options{RateLimit: -1}, "boot delay and limits cannot be negative"},
		"port":          {cloud.Options{ProxyPort: 65536}, "65536 is no port"},
		"negative port": {cloud.Options{AdminPort: -1}, "-1 is no port"},
		"no token name": {cloud.Options{Tokens: []account.Token{{Secret: "dop_v1_x"}}}, `token "" lacks a name or a secret`},
		"no secret":     {cloud.Options{Tokens: []account.Token{{Name: "x"}}}, `token "x" lacks a name or a secret`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cloud.New(test.opts)
			require.EqualError(t, err, "checking cloud options: "+test.want)
		})
	}
}

// stateNames are the files of a state directory, with what each holds.
func stateNames(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		info, err := entry.Info()
		require.NoError(t, err)
		names = append(names, fmt.Sprintf("%s %o", entry.Name(), info.Mode().Perm()&0o077))
	}
	return names
}

func TestNobodyElseReadsTheStateDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	c, err := cloud.New(cloud.Options{StateDir: dir})
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	for _, name := range stateNames(t, dir) {
		if !strings.HasPrefix(name, "ca.pem ") { // is for everyone
			require.True(t, strings.HasSuffix(name, " 0"), name)
		}
	}
	require.FileExists(t, filepath.Join(dir, admin.EndpointsFile))
	require.NoError(t, c.Close())
	require.NoFileExists(t, filepath.Join(dir, admin.EndpointsFile), "nobody shall dial what is closed")
	require.NoError(t, c.Close(), "closing again does nothing")
}

func TestDamagedStateIsToldWithItsFile(t *testing.T) {
	for name, content := range map[string]string{"tokens.json": "x", "ledger.jsonl": "x\n", "ca.pem": "x"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
			_, err := cloud.New(cloud.Options{StateDir: dir})
			require.Error(t, err)
			require.NotErrorIs(t, err, cloud.ErrRunning)
			require.NoError(t, os.Remove(filepath.Join(dir, name)))
			c, err := cloud.New(cloud.Options{StateDir: dir})
			require.NoError(t, err, "the lock was given back")
			require.NoError(t, c.Close())
		})
	}
}

func TestAStateDirectoryThatCannotBeIsTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := cloud.New(cloud.Options{StateDir: file})
	require.ErrorContains(t, err, "making state directory: ")
	_, err = cloud.New(cloud.Options{StateDir: filepath.Join(file, "below")})
	require.ErrorContains(t, err, "making state directory: ")
}

func TestAPortThatIsTakenIsTold(t *testing.T) {
	first, _ := start(t, cloud.Options{})
	var port int
	_, err := fmt.Sscanf(first.Endpoints().API, "https://127.0.0.1:%d", &port)
	require.NoError(t, err)
	for name, opts := range map[string]cloud.Options{
		"api": {APIPort: port}, "files": {FilesPort: port}, "proxy": {ProxyPort: port}, "admin": {AdminPort: port},
	} {
		t.Run(name, func(t *testing.T) {
			opts.StateDir = t.TempDir()
			second, err := cloud.New(opts)
			require.NoError(t, err)
			require.ErrorContains(t, second.Start(t.Context()), "listening: listen tcp 127.0.0.1:")
			require.NoFileExists(t, filepath.Join(opts.StateDir, admin.EndpointsFile))
			require.NoError(t, second.Close())
		})
	}
}

func TestCleanLeavesWhatIsNotOurs(t *testing.T) {
	require.EqualError(t, cloud.Clean(t.Context(), ""), "cleaning state: no directory was given")
	dir := t.TempDir()
	certificate := filepath.Join(dir, "ca.pem")
	require.NoError(t, os.WriteFile(certificate, []byte("somebody's"), 0o600))
	require.ErrorContains(t, cloud.Clean(t.Context(), dir), "cleaning state: "+dir+" is not the state directory of a local cloud")
	require.FileExists(t, certificate)
	require.Len(t, stateNames(t, dir), 1)
}

func TestCleanRemovesOnlyItsOwn(t *testing.T) {
	dir := t.TempDir() + "/state"
	c, err := cloud.New(cloud.Options{StateDir: dir})
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	require.ErrorIs(t, cloud.Clean(t.Context(), dir), cloud.ErrRunning)
	require.NoError(t, c.Close())
	require.NoError(t, cloud.Clean(t.Context(), dir))
	require.NoDirExists(t, dir)
}

func TestCleanOfNothingIsGood(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "never")
	for range 2 {
		require.NoError(t, cloud.Clean(t.Context(), dir))
		require.NoDirExists(t, dir)
	}
}

func TestTokensOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	ctx := t.Context()
	first, err := cloud.New(cloud.Options{StateDir: dir, Tokens: []account.Token{{Name: "given", Secret: "dop_v1_given"}}})
	require.NoError(t, err)
	require.NoError(t, first.Start(ctx))
	_, err = first.AddToken("reader", true)
	require.NoError(t, err)
	_, err = first.AddToken("revoked", false)
	require.NoError(t, err)
	require.NoError(t, first.RevokeToken("revoked"))
	before := first.Tokens()
	require.NoError(t, first.Close())

	second, _ := start(t, cloud.Options{StateDir: dir})
	require.Equal(t, before, second.Tokens())
	for _, token := range second.Tokens() {
		_, _, err := second.Client(token.Secret).Account.Get(ctx)
		require.Equal(t, token.Revoked, err != nil, token.Name)
	}
}

func TestTokensMadeAtOnceAreAllKept(t *testing.T) {
	dir := t.TempDir()
	c, err := cloud.New(cloud.Options{StateDir: dir})
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	var makers sync.WaitGroup
	errs := make(chan error, 40)
	for maker := range 8 {
		makers.Go(func() {
			for i := range 5 {
				_, err := c.AddToken(fmt.Sprintf("token-%d-%d", maker, i), false)
				errs <- err
			}
		})
	}
	makers.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	before := c.Tokens()
	require.Len(t, before, 41)
	require.NoError(t, c.Close())
	again, _ := start(t, cloud.Options{StateDir: dir})
	require.Equal(t, before, again.Tokens())
}

func TestServersAreRefusedWithAReason(t *testing.T) {
	c, _ := start(t, cloud.Options{})
	for name, test := range map[string]struct {
		ask  cloud.ServerOptions
		want string
	}{
		"no name":     {cloud.ServerOptions{}, `starting server: "" is no host name`},
		"a path":      {cloud.ServerOptions{Name: "../x"}, `starting server: "../x" is no host name`},
		"upper case":  {cloud.ServerOptions{Name: "Plain"}, `starting server: "Plain" is no host name`},
		"a dot":       {cloud.ServerOptions{Name: "a.b"}, `starting server: "a.b" is no host name`},
		"long":        {cloud.ServerOptions{Name: strings.Repeat("a", 64)}, `starting server: "` + strings.Repeat("a", 64) + `" is no host name`},
		"shell user":  {cloud.ServerOptions{Name: "a", User: "ops;reboot"}, `starting server: "ops;reboot" is no user name`},
		"digit user":  {cloud.ServerOptions{Name: "a", User: "1ops"}, `starting server: "1ops" is no user name`},
		"no key":      {cloud.ServerOptions{Name: "a", Keys: []string{"nonsense"}}, "starting server: key 1 is no public key in authorized_keys form"},
		"private key": {cloud.ServerOptions{Name: "a", Keys: []string{publicKey(t), "-----BEGIN OPENSSH PRIVATE KEY-----"}}, "starting server: key 2 is no public key in authorized_keys form"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.StartServer(t.Context(), test.ask)
			require.EqualError(t, err, test.want)
		})
	}
	require.Empty(t, c.Servers())
	require.Empty(t, c.Ledger().Entries())
	require.ErrorIs(t, c.StopServer(t.Context(), "none"), server.ErrNotFound)
}

func TestServersOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	ctx := t.Context()
	first, err := cloud.New(cloud.Options{StateDir: dir, Keep: true})
	require.NoError(t, err)
	require.NoError(t, first.Start(ctx))
	for _, name := range []string{"b", "gone", "a"} {
		_, err := first.StartServer(ctx, cloud.ServerOptions{Name: name, User: "ops", Keys: []string{publicKey(t)}})
		require.NoError(t, err)
	}
	require.NoError(t, first.StopServer(ctx, "gone"))
	before := first.Servers()
	require.Equal(t, "a", before[0].Name)
	require.NoError(t, first.Close())

	second, client := start(t, cloud.Options{StateDir: dir})
	require.Equal(t, before, second.Servers())
	_, err = second.StartServer(ctx, cloud.ServerOptions{Name: "a"})
	require.EqualError(t, err, "starting server: the name a is taken")
	fresh, err := second.StartServer(ctx, cloud.ServerOptions{Name: "gone"})
	require.NoError(t, err)
	created, _, err := client.Droplets.Create(ctx, request("web-1"))
	require.NoError(t, err)
	address, err := active(t, client, created.ID).PublicIPv4()
	require.NoError(t, err)
	seen := map[string]bool{address: true, fresh.Address.String(): true, before[0].Address.String(): true, before[1].Address.String(): true}
	require.Len(t, seen, 4, "no address is given twice")
	require.Len(t, second.Leftovers(), 4)
}

func TestAServerIsStartedAndStoppedOnce(t *testing.T) {
	c, _ := start(t, cloud.Options{})
	race := func(do func() error) int {
		var racers sync.WaitGroup
		results := make(chan error, 8)
		for range 8 {
			racers.Go(func() { results <- do() })
		}
		racers.Wait()
		close(results)
		good := 0
		for err := range results {
			if err == nil {
				good++
			}
		}
		return good
	}
	ctx := t.Context()
	require.Equal(t, 1, race(func() error { _, err := c.StartServer(ctx, cloud.ServerOptions{Name: "plain"}); return err }))
	require.Equal(t, 1, race(func() error { return c.StopServer(ctx, "plain") }))
	require.Len(t, c.Ledger().Entries(), 2)
	require.Empty(t, c.Live(ledger.KindServer))
	c.AssertNothingLeft(t)
}

// listener notes what an assertion says.
type listener struct{ said []string }

func (*listener) Helper() {}

func (l *listener) Errorf(format string, args ...any) {
	l.said = append(l.said, fmt.Sprintf(format, args...))
}

func TestLeftoversAreNamedOneByOne(t *testing.T) {
	c, client := start(t, cloud.Options{})
	ctx := t.Context()
	key, _, err := client.Keys.Create(ctx, &godo.KeyCreateRequest{Name: "k", PublicKey: publicKey(t)})
	require.NoError(t, err)
	ask := request("web-1")
	ask.Tags = []string{"stays", "drover-machine-uid:m"}
	created, response, err := client.Droplets.Create(ctx, ask)
	require.NoError(t, err)
	_, err = c.StartServer(ctx, cloud.ServerOptions{Name: "plain"})
	require.NoError(t, err)
	heard := &listener{}
	require.False(t, c.AssertNothingLeft(heard))
	require.Len(t, heard.said, 4)
	require.Regexp(t, fmt.Sprintf(`^left on the cloud: key %d \(k\), created \d\d:\d\d:\d\d\.\d{3} by request [0-9a-f-]{36}$`, key.ID), heard.said[0])
	require.Contains(t, heard.said[1], "left on the cloud: tag drover-machine-uid:m ", "the user's own tag is his")
	require.Regexp(t, fmt.Sprintf(`^left on the cloud: droplet %d \(web-1\), created .* by request %s$`,
		created.ID, response.Header.Get("X-Request-Id")), heard.said[2])
	require.Regexp(t, `^left on the cloud: server 1 \(plain\), created `, heard.said[3])
}

func TestCloseLeavesNothing(t *testing.T) {
	c, err := cloud.New(cloud.Options{BootDelay: time.Hour})
	require.NoError(t, err)
	require.Nil(t, c.RefusedDestinations())
	require.NoError(t, c.Start(t.Context()))
	client := c.Client(c.Token())
	_, _, err = client.Droplets.Create(t.Context(), request("web-1"))
	require.NoError(t, err)
	_, err = c.StartServer(t.Context(), cloud.ServerOptions{Name: "plain"})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.Empty(t, c.Live(ledger.KindDroplet, ledger.KindServer))
	require.Equal(t, "cloud closed", c.Ledger().Records(ledger.KindDroplet)[0].Cause)
	_, _, err = client.Account.Get(t.Context())
	require.Error(t, err)
}

func TestTheEnvironmentLeadsADriverHere(t *testing.T) {
	c, _ := start(t, cloud.Options{StateDir: t.TempDir()})
	require.Equal(t, []string{"HTTPS_PROXY=" + c.Endpoints().Proxy, "SSL_CERT_FILE=" + c.CAFile()}, c.Environment())
	require.Regexp(t, `^https://127\.0\.0\.1:\d+$`, c.Endpoints().API)
	require.Regexp(t, `^http://127\.0\.0\.1:\d+$`, c.Endpoints().Admin)
	require.Equal(t, os.Getpid(), c.Endpoints().PID)
}

func TestRoutesLeadTheProxyElsewhere(t *testing.T) {
	other, _ := start(t, cloud.Options{})
	c, _ := start(t, cloud.Options{Routes: map[string]string{"Elsewhere.Test:443": strings.TrimPrefix(other.Endpoints().API, "https://")}})
	client := c.Client("nonsense")
	ask, err := client.NewRequest(t.Context(), "GET", "https://elsewhere.test/v2/account", nil)
	require.NoError(t, err)
	_, err = client.Do(t.Context(), ask, nil)
	require.ErrorContains(t, err, "certificate", "the tunnel was opened; the certificate is the other cloud's")
	require.Empty(t, c.RefusedDestinations())
}
