package sshkeys_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

// listen hands each connection to serve, until the test ends.
func listen(t *testing.T, serve func(net.Conn)) sshkeys.Access {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	var mutex sync.Mutex
	var open []net.Conn
	serving.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			mutex.Lock()
			open = append(open, connection)
			mutex.Unlock()
			serving.Go(func() {
				serve(connection)
				_ = connection.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mutex.Lock()
		for _, connection := range open {
			_ = connection.Close()
		}
		mutex.Unlock()
		serving.Wait()
	})
	pair, err := sshkeys.Generate("test")
	require.NoError(t, err)
	address, ok := listener.Addr().(*net.TCPAddr)
	require.True(t, ok)
	return sshkeys.Access{User: "debian", Host: "127.0.0.1", Port: address.Port, PrivateKey: pair.Private}
}

// daemon serves SSH with these host keys and lets nobody or everybody in; logins counts who tried.
func daemon(keys []ssh.Signer, open bool, logins *[]string) func(net.Conn) {
	var mutex sync.Mutex
	config := &ssh.ServerConfig{PublicKeyCallback: func(meta ssh.ConnMetadata, _ ssh.PublicKey) (*ssh.Permissions, error) {
		mutex.Lock()
		defer mutex.Unlock()
		*logins = append(*logins, meta.User())
		if !open {
			return nil, errors.New("MARKER: not you")
		}
		return nil, nil
	}}
	for _, key := range keys {
		config.AddHostKey(key)
	}
	return func(connection net.Conn) {
		_, channels, requests, err := ssh.NewServerConn(connection, config)
		if err != nil {
			return
		}
		go ssh.DiscardRequests(requests)
		for channel := range channels {
			_ = channel.Reject(ssh.Prohibited, "no")
		}
	}
}

func signer(t *testing.T, key crypto.Signer, err error) ssh.Signer {
	t.Helper()
	require.NoError(t, err)
	out, err := ssh.NewSignerFromSigner(key)
	require.NoError(t, err)
	return out
}

// hostKeys are one of each kind that servers have.
func hostKeys(t *testing.T) map[string]ssh.Signer {
	t.Helper()
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	out := map[string]ssh.Signer{"ed25519": signer(t, edKey, err)}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	out["rsa"] = signer(t, rsaKey, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	out["ecdsa"] = signer(t, ecKey, err)
	return out
}

func flood(c net.Conn, text string) {
	block := []byte(strings.Repeat(text, 4096/len(text)))
	for {
		if _, err := c.Write(block); err != nil {
			return
		}
	}
}

func TestDial_meets_strangers(t *testing.T) {
	write := func(text string) func(net.Conn) {
		return func(c net.Conn) { _, _ = io.WriteString(c, text) }
	}
	silent := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	// What may answer at a server's address instead of an SSH daemon.
	for name, tt := range map[string]struct {
		serve func(net.Conn)
		mark  error
		err   string
	}{
		"closes at once":     {func(net.Conn) {}, nil, "ssh: handshake failed: "},
		"a web server":       {write("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"), nil, "ssh: handshake failed: "},
		"endless lines":      {func(c net.Conn) { flood(c, "welcome\r\n") }, nil, "ssh: handshake failed: "},
		"one endless line":   {func(c net.Conn) { flood(c, "x") }, nil, "ssh: handshake failed: "},
		"an old protocol":    {write("SSH-1.5-old\r\n"), nil, "ssh: handshake failed: "},
		"garbage behind":     {func(c net.Conn) { write("SSH-2.0-x\r\n\xff\xff\xff\xff\xff\xff")(c); silent(c) }, nil, "ssh: handshake failed: "},
		"a name and no more": {func(c net.Conn) { write("SSH-2.0-x\r\n")(c); silent(c) }, context.DeadlineExceeded, "context deadline exceeded"},
		"never a word":       {silent, context.DeadlineExceeded, "context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			access := listen(t, tt.serve)
			learned := 0
			timeout := time.Minute
			if errors.Is(tt.mark, context.DeadlineExceeded) {
				timeout = time.Second
			}
			_, err := sshkeys.Dial(t.Context(), access, sshkeys.Options{Timeout: timeout, Learn: func([]byte) error { learned++; return nil }})
			require.ErrorContains(t, err, "logging in to "+access.Address()+" as debian: "+tt.err)
			require.Zero(t, learned, "no host key was shown")
			if tt.mark != nil {
				require.ErrorIs(t, err, tt.mark)
			}
		})
	}
}

// Nothing of a login is told to a server whose host key is not the recorded one.
func TestDial_tells_nothing_to_an_imposter(t *testing.T) {
	keys := hostKeys(t)
	var logins []string
	access := listen(t, daemon([]ssh.Signer{keys["ed25519"]}, true, &logins))
	other := hostKeys(t)
	for name, tt := range map[string]struct {
		recorded []byte
		learn    func([]byte) error
		mark     error
	}{
		"another key of the kind":    {recorded: sshkeys.KnownHostsLine(access.Host, access.Port, other["ed25519"].PublicKey()), mark: sshkeys.ErrHostKeyChanged},
		"no key":                     {mark: sshkeys.ErrHostKeyUnknown},
		"the one who learns says no": {learn: func([]byte) error { return errTaken }, mark: errTaken},
		"only a revoked key":         {recorded: append([]byte("@revoked * "), ssh.MarshalAuthorizedKey(keys["ed25519"].PublicKey())...), mark: sshkeys.ErrHostKeyUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			unsure := access
			unsure.KnownHosts = tt.recorded
			_, err := sshkeys.Dial(t.Context(), unsure, sshkeys.Options{Learn: tt.learn})
			require.ErrorIs(t, err, tt.mark)
			require.Empty(t, logins)
		})
	}
}

var errTaken = errors.New("another Job recorded another key")

// A server may have several host keys; it is asked for one of the recorded kind, or it would seem to be another server.
func TestDial_asks_for_the_recorded_kind_of_key(t *testing.T) {
	keys := hostKeys(t)
	var logins []string
	access := listen(t, daemon([]ssh.Signer{keys["rsa"], keys["ecdsa"], keys["ed25519"]}, true, &logins))
	for kind, key := range keys {
		t.Run(kind, func(t *testing.T) {
			known := access
			known.KnownHosts = sshkeys.KnownHostsLine(access.Host, access.Port, key.PublicKey())
			learned := 0
			client, err := sshkeys.Dial(t.Context(), known, sshkeys.Options{Learn: func([]byte) error { learned++; return nil }})
			require.NoError(t, err)
			require.NoError(t, client.Close())
			require.Zero(t, learned, "what is recorded is not learned again")

			kept, err := sshkeys.HostKeys(known.KnownHosts)
			require.NoError(t, err)
			require.Len(t, kept, 1)
			require.Equal(t, key.PublicKey().Marshal(), kept[0].Marshal())
		})
	}
	require.Equal(t, []string{"debian", "debian", "debian"}, logins)
}

// The address of a server may change, its key does not: which host a line names does not matter.
func TestDial_knows_a_server_that_moved(t *testing.T) {
	keys := hostKeys(t)
	var logins []string
	access := listen(t, daemon([]ssh.Signer{keys["ed25519"]}, true, &logins))
	access.KnownHosts = sshkeys.KnownHostsLine("198.18.0.77", 2222, keys["ed25519"].PublicKey())
	client, err := sshkeys.Dial(t.Context(), access, sshkeys.Options{})
	require.NoError(t, err)
	require.NoError(t, client.Close())
}

func TestDial_is_told_no(t *testing.T) {
	keys := hostKeys(t)
	var logins []string
	access := listen(t, daemon([]ssh.Signer{keys["ed25519"]}, false, &logins))
	access.KnownHosts = sshkeys.KnownHostsLine(access.Host, access.Port, keys["ed25519"].PublicKey())
	_, err := sshkeys.Dial(t.Context(), access, sshkeys.Options{})
	require.True(t, sshkeys.IsRefused(err))
	require.NotContains(t, err.Error(), "MARKER", "the server's words stay with it")
	require.Equal(t, []string{"debian"}, logins)
}

// unusable are accesses that a state Secret may hold after a driver wrote nonsense into its record.
func TestDial_of_what_is_no_address(t *testing.T) {
	pair, err := sshkeys.Generate("test")
	require.NoError(t, err)
	for host, want := range map[string]string{
		"":                          "no address",
		"198.18.0.1 198.18.0.2":     `the address "198.18.0.1 198.18.0.2" of the server is invalid`,
		"h\nssh-ed25519 AAAA":       `the address "h\nssh-ed25519 AAAA" of the server is invalid`,
		"*":                         `the address "*" of the server is invalid`,
		"@cert-authority":           `the address "@cert-authority" of the server is invalid`,
		"a,b":                       `the address "a,b" of the server is invalid`,
		"tcp://198.18.0.1":          `the address "tcp://198.18.0.1" of the server is invalid`,
		"\x1b[31m":                  `the address "\x1b[31m" of the server is invalid`,
		"|1|JfKTdBh7rNbXkVAQCRp4OQ": `the address "|1|JfKTdBh7rNbXkVAQCRp4OQ" of the server is invalid`,
	} {
		access := sshkeys.Access{Host: host, PrivateKey: pair.Private}
		_, err := sshkeys.Dial(t.Context(), access, sshkeys.Options{})
		require.ErrorContains(t, err, want)
		_, err = sshkeys.Config("pool-1", access, sshkeys.ConfigFiles{Identity: "/i", KnownHosts: "/k"})
		require.ErrorContains(t, err, want)
		server, err := json.Marshal(map[string]any{"sshHost": host})
		require.NoError(t, err)
		_, err = sshkeys.AccessFrom(state.Of(map[string][]byte{"ssh-privatekey": pair.Private, "server.json": server}))
		require.Error(t, err, "refused as an address, or with the document")
	}
	for _, good := range []string{"198.18.0.1", "2001:db8::1", "fe80::1%eth0", "host.example.com", "host_1", "xn--bcher-kva.example"} {
		_, err := sshkeys.Config("pool-1", sshkeys.Access{Host: good, PrivateKey: pair.Private}, sshkeys.ConfigFiles{Identity: "/i", KnownHosts: "/k"})
		require.NoError(t, err, good)
	}
}

// FuzzKnownHosts: a line for any host holds exactly the key it was made for, and gives it back.
func FuzzKnownHosts(f *testing.F) {
	pair, err := sshkeys.Generate("")
	require.NoError(f, err)
	key, _, _, _, err := ssh.ParseAuthorizedKey(pair.Public)
	require.NoError(f, err)
	f.Add("198.18.0.1", 22, "pool-1")
	f.Add("2001:db8::1", 2222, "x")
	f.Add("fe80::1%eth0", 0, "a b")
	f.Fuzz(func(t *testing.T, host string, port int, alias string) {
		access := sshkeys.Access{Host: host, Port: port, PrivateKey: pair.Private}
		text, err := sshkeys.Config(alias, access, sshkeys.ConfigFiles{Identity: "/i", KnownHosts: "/k"})
		if err != nil {
			return
		}
		require.Equal(t, 10, strings.Count(text, "\n"), "no option more: %q", text)
		lines := sshkeys.KnownHostsLine(host, port, key)
		keys, err := sshkeys.HostKeys(lines)
		require.NoError(t, err, "%q", lines)
		require.Len(t, keys, 1, "%q", lines)
		require.True(t, bytes.Equal(key.Marshal(), keys[0].Marshal()))
		require.Equal(t, 1, bytes.Count(lines, []byte("\n")))
	})
}
