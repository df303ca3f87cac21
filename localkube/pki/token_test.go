package pki_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/pki"
)

func temporary(t *testing.T, store *pki.Store, role pki.Role, life time.Duration) pki.Token {
	t.Helper()
	token, err := store.Temporary(role, time.Now().Add(life))
	require.NoError(t, err)
	return token
}

func TestTemporary(t *testing.T) {
	store, _ := opened(t)
	for name, tc := range map[string]struct {
		made, asked pki.Role
		life        time.Duration
		want        error
	}{
		"node":                          {pki.RoleAgent, pki.RoleAgent, time.Hour, nil},
		"server":                        {pki.RoleServer, pki.RoleServer, time.Hour, nil},
		"node, expired":                 {pki.RoleAgent, pki.RoleAgent, -time.Second, pki.ErrTokenExpired},
		"server, expired long ago":      {pki.RoleServer, pki.RoleServer, -50 * 365 * 24 * time.Hour, pki.ErrTokenExpired},
		"a node is no server":           {pki.RoleAgent, pki.RoleServer, time.Hour, pki.ErrTokenUnknown},
		"a server is no node":           {pki.RoleServer, pki.RoleAgent, time.Hour, pki.ErrTokenUnknown},
		"expired, and of another role":  {pki.RoleServer, pki.RoleAgent, -time.Hour, pki.ErrTokenUnknown},
		"ends in this very second":      {pki.RoleAgent, pki.RoleAgent, 0, pki.ErrTokenExpired},
		"before the computer's own era": {pki.RoleAgent, pki.RoleAgent, -100 * 365 * 24 * time.Hour, pki.ErrTokenUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			token := temporary(t, store, tc.made, tc.life)
			require.Equal(t, store.Cluster.Fingerprint(), token.Fingerprint)
			again, err := pki.ParseToken(token.String())
			require.NoError(t, err)
			require.Equal(t, token, again, "it can be handed over as text")
			err = store.Admits(tc.asked, token.Secret)
			require.ErrorIs(t, err, tc.want)
			if err != nil {
				require.NotContains(t, err.Error(), token.Secret)
			}
		})
	}
}

func TestTemporary_cannot_be_prolonged(t *testing.T) {
	store, _ := opened(t)
	_, sum, found := strings.Cut(temporary(t, store, pki.RoleAgent, -time.Hour).Secret, "-")
	require.True(t, found)
	long, err := store.Token(pki.RoleAgent)
	require.NoError(t, err)
	for name, secret := range map[string]string{
		"later end":          strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10) + "-" + sum,
		"no end":             "-" + sum,
		"the sum alone":      sum,
		"end is no number":   "never-" + sum,
		"no sum":             strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10) + "-",
		"secret as the sum":  strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10) + "-" + long.Secret,
		"two ends":           strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10) + "-" + "1-" + sum,
		"nothing but a dash": "-",
	} {
		require.ErrorIs(t, store.Admits(pki.RoleAgent, secret), pki.ErrTokenUnknown, name)
	}
}

func TestTemporary_does_not_tell_the_lasting_secret(t *testing.T) {
	store, _ := opened(t)
	lasting, err := store.Token(pki.RoleServer)
	require.NoError(t, err)
	require.NotContains(t, temporary(t, store, pki.RoleServer, time.Hour).String(), lasting.Secret)
	require.NoError(t, store.Admits(pki.RoleServer, lasting.Secret), "the lasting one goes on")
}

func TestTemporary_is_good_at_every_server(t *testing.T) {
	founder, _ := opened(t)
	for _, role := range []pki.Role{pki.RoleServer, pki.RoleAgent} {
		_, err := founder.Token(role)
		require.NoError(t, err)
	}
	files, err := founder.Shared()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, pki.Adopt(dir, files))
	second, err := pki.Open(dir)
	require.NoError(t, err)
	require.NoError(t, second.Admits(pki.RoleAgent, temporary(t, founder, pki.RoleAgent, time.Hour).Secret))
	stranger, _ := opened(t)
	require.ErrorIs(t, stranger.Admits(pki.RoleAgent, temporary(t, founder, pki.RoleAgent, time.Hour).Secret), pki.ErrTokenUnknown)
}

func TestReplacing_a_token_ends_all_that_came_from_it(t *testing.T) {
	store, dir := opened(t)
	old, err := store.Token(pki.RoleAgent)
	require.NoError(t, err)
	derived := temporary(t, store, pki.RoleAgent, time.Hour)
	require.NoError(t, os.Remove(filepath.Join(dir, "token-agent")))
	fresh, err := store.Token(pki.RoleAgent)
	require.NoError(t, err)
	require.NotEqual(t, old, fresh)
	for secret, want := range map[string]error{old.Secret: pki.ErrTokenUnknown, derived.Secret: pki.ErrTokenUnknown, fresh.Secret: nil} {
		require.ErrorIs(t, store.Admits(pki.RoleAgent, secret), want)
	}
}

func TestToken_that_cannot_be_read(t *testing.T) {
	store, dir := opened(t)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "token-agent"), 0o700))
	_, err := store.Temporary(pki.RoleAgent, time.Now())
	require.EqualError(t, err, in(dir, "reading join token: read DIR/token-agent: is a directory"))
	require.EqualError(t, store.Admits(pki.RoleAgent, "x"), err.Error())
}

func TestParseToken_texts(t *testing.T) {
	sum := strings.Repeat("0123456789abcdef", 4)
	for name, tc := range map[string]struct {
		text string
		want pki.Token
		err  string
	}{
		"lasting":         {"lk1." + sum + ".s3cret", pki.Token{Fingerprint: sum, Secret: "s3cret"}, ""},
		"expiring":        {"lk1." + sum + ".1700000000-ab", pki.Token{Fingerprint: sum, Secret: "1700000000-ab"}, ""},
		"from a terminal": {"\r\n\tlk1." + sum + ".s \r\n", pki.Token{Fingerprint: sum, Secret: "s"}, ""},
		"in capitals":     {"lk1." + strings.ToUpper(sum) + ".s", pki.Token{Fingerprint: sum, Secret: "s"}, ""},
		"nothing":         {" \n", pki.Token{}, "no join token given: set --token-file to a copy of the server's DATA/pki/token-agent, or token-server for a further server"},
		"a path":          {"/data/pki/token-agent", pki.Token{}, "reading join token: not of the form lk1.<fingerprint>.<secret>"},
		"two tokens":      {"lk1." + sum + ".a\nlk1." + sum + ".b", pki.Token{}, "reading join token: not of the form lk1.<fingerprint>.<secret>"},
		"no hexadecimal":  {"lk1." + strings.Repeat("g", 64) + ".s", pki.Token{}, "reading join token: the fingerprint is not hexadecimal"},
		"a new header":    {"lk1." + sum + ".s\r\nHost: x", pki.Token{}, "reading join token: the secret has characters that no token has"},
		"a zero byte":     {"lk1." + sum + ".s\x00", pki.Token{}, "reading join token: the secret has characters that no token has"},
		"no ASCII":        {"lk1." + sum + ".schlüssel", pki.Token{}, "reading join token: the secret has characters that no token has"},
	} {
		t.Run(name, func(t *testing.T) {
			token, err := pki.ParseToken(tc.text)
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, token)
		})
	}
}

func TestVerify_says_what_to_do(t *testing.T) {
	store, _ := opened(t)
	other, _ := opened(t)
	token, err := store.Token(pki.RoleAgent)
	require.NoError(t, err)
	cert, err := token.Verify(store.Cluster.CertPEM())
	require.NoError(t, err)
	require.Equal(t, "localkube-ca", cert.Subject.CommonName)
	_, err = token.Verify(other.Cluster.CertPEM())
	require.EqualError(t, err, "the server's certificate authority is not the one the join token names: "+
		"take the token from a server of that cluster, or correct the URL")
}

func TestAdmits_nothing_like_a_token(t *testing.T) {
	store, err := pki.Open(t.TempDir())
	require.NoError(t, err)
	token, err := store.Token(pki.RoleAgent)
	require.NoError(t, err)
	past, err := store.Temporary(pki.RoleAgent, time.Unix(1, 0))
	require.NoError(t, err)
	check := func(secret string) {
		err := store.Admits(pki.RoleAgent, secret)
		switch secret {
		case token.Secret:
			require.NoError(t, err)
		case past.Secret:
			require.ErrorIs(t, err, pki.ErrTokenExpired)
		default:
			require.ErrorIs(t, err, pki.ErrTokenUnknown)
		}
	}
	for _, seed := range []string{"", "-", "1-", "9999999999-00", past.Secret, "x" + token.Secret} {
		check(seed)
	}
}
