package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/jobrunner/operation/redact"
)

func TestRedactor(t *testing.T) {
	secret := `p@ss/w"ord+1 <&'ü`
	var r redact.Redactor
	r.Add(secret, "abc", "-----BEGIN KEY-----\nAAAAB3NzaC1yc2EAAA\nshort\n-----END KEY-----\n")
	quoted, err := json.Marshal(secret)
	require.NoError(t, err)
	for _, text := range []string{
		secret, html.EscapeString(secret), `<password>p@ss/w&quot;ord+1 &lt;&amp;&apos;ü</password>`, url.QueryEscape(secret), url.PathEscape(secret), string(quoted), fmt.Sprintf("%q", secret),
		base64.StdEncoding.EncodeToString([]byte(secret)),
		"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+secret)),
		base64.URLEncoding.EncodeToString([]byte("x" + secret + "trailing")),
		base64.StdEncoding.EncodeToString([]byte("xy" + secret + "trailing")),
		"debug | AAAAB3NzaC1yc2EAAA",
	} {
		got := r.String("before " + text + " after")
		require.Contains(t, got, redact.Mark, text)
		require.NotContains(t, got, secret)
		require.True(t, strings.HasPrefix(got, "before "), got)
		require.True(t, strings.HasSuffix(got, " after"), got)
	}
	require.Equal(t, "abc short", r.String("abc short"), "short values are words")
	require.Equal(t, "nothing", new(redact.Redactor).String("nothing"))
}

func TestRedactor_longer_secrets_first(t *testing.T) {
	var r redact.Redactor
	r.Add("token", "token-and-more")
	require.Equal(t, redact.Mark, r.String("token-and-more"))
}

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	var r redact.Redactor
	r.Add("hunter2")
	w := redact.NewWriter(&out, &r)
	for _, piece := range []string{"password hun", "ter2\nnext", " line\n", strings.Repeat("x", 70<<10), "hunter2\nla", "st"} {
		_, err := io.WriteString(w, piece)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.Equal(t, "password [redacted]\nnext line\n[a line of more than 64 KiB was left out]\nlast\n", out.String())
}

// isToken knows words of a text that are secrets without a doubt.
var isToken = regexp.MustCompile(`^[a-z][0-9a-z]{14,}[0-9]$`)

func FuzzRedactor(f *testing.F) {
	f.Add("hunter2", "before", "after")
	f.Add("a+b/c=d\n", "", "x")
	f.Add("]000", "", "000")
	f.Add("#!/bin/sh\nexport TOKEN='a1b2c3d4e5f6a7b8'\n", "+ export TOKEN=", "\n")
	f.Add(`{"key":"x\nabcdefghijkl1234","a":["b1b2c3d4e5f6a7b8,x"]}`, "", "")
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		secret = strings.TrimSpace(secret)
		if len(secret) < 4 {
			return
		}
		var r redact.Redactor
		r.Add(secret)
		// Each part by itself: the end of a mark and what follows it can spell the secret by chance.
		for part := range strings.SplitSeq(r.String(before+secret+after), redact.Mark) {
			require.NotContains(t, part, secret)
		}
		for word := range strings.FieldsSeq(secret) {
			if strings.Contains(secret, "\n") && isToken.MatchString(word) {
				require.Equal(t, redact.Mark, r.String(word))
			}
		}
	})
}
