package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/server"
)

const cloudToken = cloud.DefaultToken

func TestListsOfAnEmptyCloud(t *testing.T) {
	b := newBench(t)
	require.Equal(t, "ID  NAME  STATUS  ADDRESS  TAGS\n", b.prints(t, "ls"))
	require.Equal(t, "TIME  WHAT  KIND  ID  NAME  TOKEN  CAUSE\n", b.prints(t, "ledger"))
	require.Equal(t, "CREATED  KIND  ID  NAME  TOKEN\n", b.prints(t, "ledger", "--live"))
	require.Equal(t, "nothing is left\n", b.prints(t, "leftovers"))
	for _, args := range [][]string{{"ledger", "-o", "json"}, {"ledger", "--live", "-o", "json"}, {"server", "ls"}, {"fault", "ls"}, {"fault", "hits"}} {
		require.Empty(t, b.prints(t, args...), args)
	}
}

func TestListsTellWhatExistsAndWhatDid(t *testing.T) {
	b := newBench(t)
	web := b.create(t, "web-1", "blue", "green")
	b.create(t, "web-2")
	key := filepath.Join(t.TempDir(), "key.pub")
	require.NoError(t, os.WriteFile(key, []byte(publicKey+"\n"), 0o600))
	b.prints(t, "server", "add", "plain", "--user", "ops", "--key-file", key)
	_, _, err := b.godo.DropletActions.PowerOff(t.Context(), web.ID)
	require.NoError(t, err)
	b.await(t, web.ID, "off")
	golden(t, "ls.txt", b.stable(b.prints(t, "ls")))

	out, err := run(t.Context(), "leftovers", "--state-dir", b.dir)
	require.EqualError(t, err, "3 things are left")
	golden(t, "leftovers.txt", b.stable(out))

	b.prints(t, "vanish", strings.Fields(strings.Split(b.prints(t, "ls"), "\n")[1])[0])
	golden(t, "ledger.txt", b.stable(b.prints(t, "ledger")))
	golden(t, "ledger-live.txt", b.stable(b.prints(t, "ledger", "--live")))

	b.prints(t, "server", "rm", "plain")
	out, err = run(t.Context(), "leftovers", "--state-dir", b.dir)
	require.EqualError(t, err, "1 thing is left")
	require.Equal(t, 1, strings.Count(out, "\n"))
}

func TestLedgerInJSONIsTheWholeOfIt(t *testing.T) {
	b := newBench(t)
	b.create(t, "web-1", "blue")
	var entries []ledger.Entry
	for line := range strings.Lines(b.prints(t, "ledger", "-o", "json")) {
		var entry ledger.Entry
		require.NoError(t, json.Unmarshal([]byte(line), &entry))
		entries = append(entries, entry)
	}
	require.Len(t, entries, 3)
	for i, want := range []struct {
		op   ledger.Op
		kind ledger.Kind
		name string
	}{{ledger.OpCreated, ledger.KindTag, "blue"}, {ledger.OpCreated, ledger.KindDroplet, "web-1"}, {ledger.OpChanged, ledger.KindDroplet, "web-1"}} {
		require.Equal(t, want, struct {
			op   ledger.Op
			kind ledger.Kind
			name string
		}{entries[i].Op, entries[i].Kind, entries[i].Name})
	}
	require.Equal(t, cloudToken, entries[1].Token, "the name of the token, not its secret")
	require.NotContains(t, b.prints(t, "ledger", "-o", "json"), b.Token())
	require.NotContains(t, b.prints(t, "ledger"), b.Token())
}

// What env prints, taken by a shell, leads an ordinary client here.
func TestVariablesLeadAClientHere(t *testing.T) {
	b := newBench(t)
	script := b.prints(t, "env") + `printf '%s\n' "$HTTPS_PROXY" "$SSL_CERT_FILE" "$DIGITALOCEAN_ACCESS_TOKEN"`
	out, err := exec.CommandContext(t.Context(), "sh", "-c", script).Output()
	require.NoError(t, err)
	values := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	require.Len(t, values, 3)
	proxy, err := url.Parse(values[0])
	require.NoError(t, err)
	authority, err := os.ReadFile(values[1])
	require.NoError(t, err, "also with a blank in the path")
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(authority))
	client := &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}
	defer client.CloseIdleConnections()
	ask, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.digitalocean.com/v2/account", nil)
	require.NoError(t, err)
	ask.Header.Set("Authorization", "Bearer "+values[2])
	answer, err := client.Do(ask)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	require.Equal(t, http.StatusOK, answer.StatusCode)
}

func TestQuoteOfAPath(t *testing.T) {
	for path, want := range map[string]string{
		"/state/ca.pem": "/state/ca.pem", "/my state/ca.pem": "'/my state/ca.pem'", "/it's": `'/it'\''s'`, "/$HOME": "'/$HOME'", "/a;b": "'/a;b'",
	} {
		require.Equal(t, want, quote(path))
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "x="+quote(path)+`; printf %s "$x"`).Output()
		require.NoError(t, err)
		require.Equal(t, path, string(out))
	}
}

func TestServersAreAddedListedAndRemoved(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	key, data := filepath.Join(dir, "key.pub"), filepath.Join(dir, "user-data")
	require.NoError(t, os.WriteFile(key, []byte(publicKey+"\n"), 0o600))
	require.NoError(t, os.WriteFile(data, []byte("#!/bin/sh\n"), 0o600))
	added := b.prints(t, "server", "add", "plain", "--user", "ops", "--key-file", key, "--key-file", key, "--user-data-file", data)
	require.Equal(t, added, b.prints(t, "server", "ls"))
	var info server.Info
	require.NoError(t, json.Unmarshal([]byte(added), &info))
	require.Equal(t, "plain", info.Name)
	require.Equal(t, "ops", info.User)
	require.Equal(t, "198.18.1.1", info.Address.String())
	require.True(t, info.Running)
	require.Contains(t, b.fails(t, "server", "add", "plain"), "the name plain is taken")
	require.Empty(t, b.prints(t, "server", "rm", "plain"))
	require.Empty(t, b.prints(t, "server", "ls"))
	require.Contains(t, b.fails(t, "server", "rm", "plain"), "server not found")

	private := filepath.Join(dir, "key")
	require.NoError(t, os.WriteFile(private, []byte("-----BEGIN OPENSSH PRIVATE KEY-----\nmarker\n"), 0o600))
	message := b.fails(t, "server", "add", "plain", "--key-file", private)
	require.Contains(t, message, "key 1 is no public key in authorized_keys form")
	require.NotContains(t, message, "marker")
}

func (b *bench) tokens(t *testing.T) map[string]account.Token {
	t.Helper()
	found := map[string]account.Token{}
	for line := range strings.Lines(b.prints(t, "token", "ls")) {
		var token account.Token
		require.NoError(t, json.Unmarshal([]byte(line), &token))
		found[token.Name] = token
	}
	return found
}

func TestTokensLiveAndDie(t *testing.T) {
	b := newBench(t)
	secret := strings.TrimSpace(b.prints(t, "token", "add", "second"))
	require.Regexp(t, `^dop_v1_[0-9a-f]{64}$`, secret)
	reader := strings.TrimSpace(b.prints(t, "token", "add", "reader", "--read-only"))
	require.Equal(t, "marker-demo", b.tokens(t)["demo"].Secret)
	require.Equal(t, secret, b.tokens(t)["second"].Secret)
	status := func(secret string) int {
		_, response, _ := b.Client(secret).Account.Get(t.Context())
		require.NotNil(t, response)
		return response.StatusCode
	}
	require.Equal(t, http.StatusOK, status(secret))
	require.Equal(t, http.StatusOK, status(reader))
	_, response, err := b.Client(reader).Tags.Create(t.Context(), nil)
	require.Error(t, err)
	require.Nil(t, response)

	for _, step := range []struct {
		args []string
		want int
	}{
		{[]string{"token", "revoke", "second"}, http.StatusUnauthorized},
		{[]string{"token", "restore", "second"}, http.StatusOK},
		{[]string{"token", "expire", "second"}, http.StatusUnauthorized},
		{[]string{"token", "restore", "second"}, http.StatusOK},
		{[]string{"token", "expire", "second", "--in", "1h"}, http.StatusOK},
		{[]string{"token", "expire", "second", "--in", "-1h"}, http.StatusUnauthorized},
	} {
		require.Empty(t, b.prints(t, step.args...))
		require.Equal(t, step.want, status(secret), step.args)
	}
	require.WithinDuration(t, time.Now().Add(-time.Hour), b.tokens(t)["second"].Expires, time.Minute)
}

func TestLimitIsTheAccounts(t *testing.T) {
	b := newBench(t)
	require.Empty(t, b.prints(t, "limit", "3"))
	found, _, err := b.godo.Account.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, found.DropletLimit)
}

func TestFilesAreServedAndGoWrong(t *testing.T) {
	b := newBench(t)
	path := filepath.Join(t.TempDir(), "driver")
	require.NoError(t, os.WriteFile(path, []byte("a driver"), 0o600))
	fields := strings.Fields(b.prints(t, "file", "put", "drivers/one", path))
	require.Equal(t, "90383ae1a1af0952d39bcf452e62c7d6de4381a03bdd30bf5ead80c3b9bf4b99", fields[1])
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(b.CAPEM()))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	fetch := func() (int, string) {
		ask, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fields[0], nil)
		require.NoError(t, err)
		answer, err := client.Do(ask)
		require.NoError(t, err)
		defer func() { _ = answer.Body.Close() }()
		content, _ := io.ReadAll(answer.Body) // one that is truncated ends with an error
		return answer.StatusCode, string(content)
	}
	code, content := fetch()
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "a driver", content)
	for _, name := range []string{"drivers/one", "*"} {
		b.prints(t, "file", "fault", name, "404")
		code, _ = fetch()
		require.Equal(t, http.StatusNotFound, code)
		b.prints(t, "file", "fault", name, "html")
		_, content = fetch()
		require.Contains(t, content, "<html")
		b.prints(t, "file", "fault", name)
		_, content = fetch()
		require.Equal(t, "a driver", content)
	}
	require.Contains(t, b.fails(t, "file", "put", "drivers/two", filepath.Dir(path)), "is a directory")
}

// full is a terminal that is gone.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestPrintingTellsWhenItCannot(t *testing.T) {
	require.EqualError(t, printTable(full{}, []string{"A\tB"}), "no space left on device")
	require.EqualError(t, printLines(full{}, []int{1}, nil), "printing: no space left on device")
	told := errors.New("no cloud")
	require.ErrorIs(t, printLines(full{}, []int{1}, told), told)
	rows := func([]int) []string { return []string{"A\tB", "1\t22"} }
	var out bytes.Buffer
	require.NoError(t, printEither(&out, "", []int{1}, rows, nil))
	require.Equal(t, "A  B\n1  22\n", out.String())
	require.ErrorIs(t, printEither(&out, "", []int{1}, rows, told), told)
}
