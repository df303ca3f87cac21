package redact_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/jobrunner/operation/redact"
)

// TestRedactor_odd_secrets: passwords as people and generators make them, in the forms in which programs print them.
func TestRedactor_odd_secrets(t *testing.T) {
	for name, secret := range map[string]string{
		"spaces":             "correct horse battery",
		"quotes at its ends": `"quoted"`,
		"backslashes":        `C:\new\table`,
		"a tab":              "before\tafter",
		"percent signs":      "100%25sure",
		"only marks":         "$&'()*,/:;",
		"dollars of shells":  "${HOME}$1$$",
		"other letters":      "größe-文件",
		"a letter beyond":    "key🔑key",
		"no text at all":     "hunter2\xff\xfeabc",
		"a control sign":     "bell\x07rings",
		"a zero":             "zero\x00zero",
	} {
		t.Run(name, func(t *testing.T) {
			var r redact.Redactor
			r.Add(secret)
			quoted, err := json.Marshal(secret)
			require.NoError(t, err)
			plain := &bytes.Buffer{}
			encoder := json.NewEncoder(plain)
			encoder.SetEscapeHTML(false)
			require.NoError(t, encoder.Encode(secret))
			for form, text := range map[string]string{
				"as it is": secret, "JSON": string(quoted), "plain JSON": plain.String(), "a query": url.QueryEscape(secret), "a path": url.PathEscape(secret),
				"a query in small letters": lowered(url.QueryEscape(secret)),
				"an address":               (&url.URL{Scheme: "https", User: url.UserPassword("u", secret), Host: "api.example.com"}).String(),
			} {
				got := string(r.Bytes([]byte("<" + text + ">")))
				require.Contains(t, got, redact.Mark, "%s: %s", form, text)
				require.NotContains(t, got, secret, form)
			}
		})
	}
}

// lowered makes the escapes of a URL small, and nothing else.
func lowered(text string) string {
	parts := strings.Split(text, "%")
	for i := 1; i < len(parts); i++ {
		parts[i] = strings.ToLower(parts[i][:2]) + parts[i][2:]
	}
	return strings.Join(parts, "%")
}

// FuzzWriter: however the output of a driver is cut into pieces, what is passed on is the same, and without the secret.
func FuzzWriter(f *testing.F) {
	f.Add("the password is hunter2\nand more\n", uint8(3))
	f.Add("hunter2", uint8(1))
	f.Add("\n\nhunter2\r\n\xffhunter2\xff", uint8(2))
	f.Fuzz(func(t *testing.T, text string, step uint8) {
		passed := func(size int) string {
			var out bytes.Buffer
			var r redact.Redactor
			r.Add("hunter2")
			w := redact.NewWriter(&out, &r)
			for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
				n, err := io.WriteString(w, rest[:min(size, len(rest))])
				require.NoError(t, err)
				require.Equal(t, min(size, len(rest)), n)
			}
			require.NoError(t, w.Close())
			return out.String()
		}
		whole := passed(len(text) + 1)
		require.Equal(t, whole, passed(int(step)+1))
		require.NotContains(t, whole, "hunter2")
		require.True(t, whole == "" || strings.HasSuffix(whole, "\n"))
	})
}
