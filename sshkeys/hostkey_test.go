package sshkeys_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/drover-project/drover/sshkeys"
)

// publicLine is a fresh key's "type base64".
func publicLine(t *testing.T) string {
	t.Helper()
	pair, err := sshkeys.Generate("")
	require.NoError(t, err)
	return strings.TrimSpace(string(pair.Public))
}

func TestHostKeys(t *testing.T) {
	a, b := publicLine(t), publicLine(t)
	for name, c := range map[string]struct {
		lines string
		want  int
		err   string
	}{
		"nothing":                     {},
		"comments and empty lines":    {lines: "# a\n\n  \n"},
		"one":                         {lines: "198.18.0.1 " + a, want: 1},
		"two":                         {lines: "198.18.0.1 " + a + "\n[198.18.0.1]:2022 " + b + " comment\n", want: 2},
		"a hashed name":               {lines: "|1|JfKTdBh7rNbXkVAQCRp4OQoPfmI=|USECr3SWf1JUPsms5AqfD5QfxkM= " + a, want: 1},
		"a revoked key is none":       {lines: "@revoked * " + a + "\n198.18.0.1 " + b, want: 1},
		"an authority is no host key": {lines: "@cert-authority * " + a},
		"no key":                      {lines: "198.18.0.1 ssh-ed25519 MARKER", err: "reading known hosts"},
		"most":                        {lines: strings.Repeat("h "+a+"\n", 64), want: 64},
		"too many":                    {lines: strings.Repeat("h "+a+"\n", 65), err: "more than 64 keys"},
		"too large":                   {lines: strings.Repeat("#", 65537), err: "at most 65536 are accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			keys, err := sshkeys.HostKeys([]byte(c.lines))
			_, renameErr := sshkeys.RenameKnownHosts([]byte(c.lines), "m1")
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorContains(t, renameErr, c.err)
				return
			}
			require.NoError(t, err)
			require.NoError(t, renameErr)
			require.Len(t, keys, c.want)
		})
	}
}

func TestKnownHostsLine(t *testing.T) {
	line := publicLine(t)
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	require.NoError(t, err)
	require.Equal(t, "198.18.0.1 "+line+"\n", string(sshkeys.KnownHostsLine("198.18.0.1", 22, key)))
	require.Equal(t, "[198.18.0.1]:2022 "+line+"\n", string(sshkeys.KnownHostsLine("198.18.0.1", 2022, key)))
	ipv6 := sshkeys.KnownHostsLine("2001:db8::1", 2022, key)
	require.Equal(t, "[2001:db8::1]:2022 "+line+"\n", string(ipv6))

	renamed, err := sshkeys.RenameKnownHosts(ipv6, "pool-1")
	require.NoError(t, err)
	require.Equal(t, "pool-1 "+line+"\n", string(renamed))
}

func TestConfig_golden(t *testing.T) {
	text, err := sshkeys.Config("pool-1", sshkeys.Access{Host: "fe80::1%eth0", PrivateKey: []byte("MARKER")},
		sshkeys.ConfigFiles{Identity: "/home/me/my keys/%u", KnownHosts: "/home/me/known_hosts"})
	require.NoError(t, err)
	require.Equal(t, `Host pool-1
  HostName fe80::1%%eth0
  Port 22
  User root
  IdentityFile "/home/me/my keys/%%u"
  IdentitiesOnly yes
  HostKeyAlias pool-1
  UserKnownHostsFile /home/me/known_hosts
  GlobalKnownHostsFile none
  StrictHostKeyChecking yes
`, text)
}

// TestConfig_refuses what would put another option into the file.
func TestConfig_refuses(t *testing.T) {
	good := sshkeys.Access{User: "root", Host: "198.18.0.1", PrivateKey: []byte("key")}
	files := sshkeys.ConfigFiles{Identity: "/i", KnownHosts: "/k"}
	with := func(change func(*sshkeys.Access, *sshkeys.ConfigFiles)) func() error {
		return func() error {
			access, files := good, files
			change(&access, &files)
			_, err := sshkeys.Config("pool-1", access, files)
			return err
		}
	}
	for name, c := range map[string]struct {
		write func() error
		want  string
	}{
		"a host with a line": {with(func(a *sshkeys.Access, _ *sshkeys.ConfigFiles) { a.Host = "h\nProxyCommand x" }), `the address "h\nProxyCommand x" of the server is invalid`},
		"a user with a line": {with(func(a *sshkeys.Access, _ *sshkeys.ConfigFiles) { a.User = "u\r\nProxyCommand x" }), "User"},
		"a quoted path":      {with(func(_ *sshkeys.Access, f *sshkeys.ConfigFiles) { f.Identity = `/a" "b` }), "IdentityFile"},
		"an apostrophe":      {with(func(_ *sshkeys.Access, f *sshkeys.ConfigFiles) { f.Identity = `/it's` }), `IdentityFile: the value "/it's" cannot be written`},
		"a variable":         {with(func(_ *sshkeys.Access, f *sshkeys.ConfigFiles) { f.KnownHosts = `/${HOME}/k` }), "UserKnownHostsFile"},
		"no identity":        {with(func(_ *sshkeys.Access, f *sshkeys.ConfigFiles) { f.Identity = "" }), "IdentityFile"},
		"no known hosts":     {with(func(_ *sshkeys.Access, f *sshkeys.ConfigFiles) { f.KnownHosts = "" }), "UserKnownHostsFile"},
		"no host":            {with(func(a *sshkeys.Access, _ *sshkeys.ConfigFiles) { a.Host = "" }), "no address"},
		"no key":             {with(func(a *sshkeys.Access, _ *sshkeys.ConfigFiles) { a.PrivateKey = nil }), "no SSH private key"},
	} {
		t.Run(name, func(t *testing.T) { require.ErrorContains(t, c.write(), c.want) })
	}
	for user, taken := range map[string]bool{
		"ubuntu": true, "first.last@corp.example": true, `CORP\first.last`: true, "web-1$": true, "größe": true, "_x+y": true, "": true,
		"%d": false, "a%%b": false, "${HOME}": false, "$HOME": false, "a$b": false, `a\\b`: false, `a\`: false, `\a`: false, "a b": false, "a\tb": false, `a"b`: false, "a'b": false,
		"-oProxyCommand=x": false, "a;b": false, "`a`": false, "$(a)": false, "a|b": false, "root\n": false, "#a": false, "a\u202eb": false,
	} {
		err := with(func(a *sshkeys.Access, _ *sshkeys.ConfigFiles) { a.User = user })()
		if taken {
			require.NoError(t, err, "%q", user)
			continue
		}
		require.EqualError(t, err, fmt.Sprintf("writing an ssh_config: User: %q is not of letters, digits and . _ @ + - alone, and OpenSSH would take other signs for something else", user))
	}
	for _, alias := range []string{"", "?", "!a", "a,b", "a\tb", "*", "a b", "a\nProxyCommand x", `a"b`} {
		_, err := sshkeys.Config(alias, good, files)
		require.Error(t, err, "%q", alias)
	}
}

func TestPublicOf(t *testing.T) {
	pair, err := sshkeys.Generate("first comment")
	require.NoError(t, err)
	again, err := sshkeys.PublicOf(pair.Private, " first\ncomment ")
	require.NoError(t, err)
	require.Equal(t, string(pair.Public), string(again), "a comment never breaks the line")
	require.Equal(t, 1, bytes.Count(again, []byte("\n")))
	bare, err := sshkeys.PublicOf(pair.Private, "")
	require.NoError(t, err)
	require.Len(t, strings.Fields(string(bare)), 2)
	_, err = sshkeys.PublicOf(bytes.Repeat([]byte("x"), 65537), "")
	require.ErrorContains(t, err, "at most 65536 are accepted")
	_, err = sshkeys.PublicOf(pair.Public, "")
	require.ErrorContains(t, err, "no OpenSSH or PEM key")
}
