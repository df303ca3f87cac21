package userdata_test

import (
	"bytes"
	"fmt"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/drover-project/drover/userdata"
)

// samples has one text of each format, with the format's own marker in it.
func samples(marker string) map[userdata.Format]string {
	return map[userdata.Format]string{
		userdata.Empty:       " \n\t",
		userdata.Script:      "#!/bin/sh\necho " + marker + "\n",
		userdata.CloudConfig: "#cloud-config\nruncmd: [" + marker + "]\n",
		userdata.Jinja:       "## template: jinja\n#cloud-config\nruncmd: ['{{ v1." + marker + " }}']\n",
		userdata.MultiPart: "Content-Type: multipart/mixed; boundary=b\nMIME-Version: 1.0\n\n--b\nContent-Type: text/x-shellscript\n\n#!/bin/sh\necho " +
			marker + "\n--b--\n",
		userdata.Opaque: `{"ignition":{"version":"` + marker + `"}}`,
	}
}

// pairFormat is the table of docs/userdata.md: what becomes of two formats.
func pairFormat(user, boot userdata.Format) userdata.Format {
	for _, f := range []userdata.Format{userdata.Opaque, userdata.MultiPart, userdata.Jinja} {
		if user == f || boot == f {
			if f == userdata.Jinja {
				return userdata.MultiPart
			}
			return f
		}
	}
	if user == userdata.Empty && boot == userdata.Empty {
		return userdata.Empty
	}
	return userdata.CloudConfig
}

func TestMerge_every_pair_of_formats(t *testing.T) {
	for user, userText := range samples("ofuser") {
		for boot, bootText := range samples("ofboot") {
			t.Run(fmt.Sprintf("%s and %s", user, boot), func(t *testing.T) {
				got, err := userdata.Merge(userdata.Input{User: []byte(userText), Bootstrap: []byte(bootText)})
				want := pairFormat(user, boot)
				if want == userdata.Opaque && user != userdata.Empty && boot != userdata.Empty {
					require.ErrorIs(t, err, userdata.ErrCannotMerge)
					require.NotContains(t, err.Error(), "ofuser", "an error never repeats the data")
					require.NotContains(t, err.Error(), "ofboot", "an error never repeats the data")
					return
				}
				require.NoError(t, err)
				require.Equal(t, want, userdata.Detect(got), string(got))
			})
		}
	}
}

// bodies are the content types and bodies of a multi-part result.
func bodies(t *testing.T, data []byte) (parts []map[string]string) {
	t.Helper()
	message, err := mail.ReadMessage(bytes.NewReader(data))
	require.NoError(t, err)
	_, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	require.NoError(t, err)
	reader := multipart.NewReader(message.Body, parameters["boundary"])
	for {
		part, err := reader.NextRawPart()
		if err != nil {
			return parts
		}
		var body bytes.Buffer
		_, err = body.ReadFrom(part)
		require.NoError(t, err)
		kind, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
		parts = append(parts, map[string]string{"type": kind, "body": body.String(), "merge": part.Header.Get("X-Merge-Type")})
	}
}

func TestMerge_parts_keep_their_order(t *testing.T) {
	got, err := userdata.Merge(userdata.Input{
		User: []byte(samples("one")[userdata.Jinja]), Bootstrap: []byte(samples("two")[userdata.MultiPart]), Hostname: "pool-1",
	})
	require.NoError(t, err)
	parts := bodies(t, got)
	require.Len(t, parts, 3)
	require.Equal(t, "text/jinja2", parts[0]["type"])
	require.Contains(t, parts[0]["body"], "v1.one")
	require.Empty(t, parts[0]["merge"], "there is nothing before the first part")
	require.Equal(t, "text/x-shellscript", parts[1]["type"])
	require.Empty(t, parts[1]["merge"], "a script is not merged")
	require.Equal(t, "#cloud-config\nhostname: \"pool-1\"\n", parts[2]["body"])
	require.Contains(t, parts[2]["merge"], "no_replace", "an earlier host name stays")
}

func TestMerge_leaves_a_parts_own_merge_type(t *testing.T) {
	user := "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/cloud-config\n\n#cloud-config\n--b\n" +
		"Content-Type: text/cloud-config\nX-Merge-Type: list(prepend)\n\n#cloud-config\n--b--\n"
	got, err := userdata.Merge(userdata.Input{User: []byte(user), Bootstrap: []byte("#cloud-config\na: 1\n")})
	require.NoError(t, err)
	parts := bodies(t, got)
	require.Len(t, parts, 3)
	require.Equal(t, "list(prepend)", parts[1]["merge"])
	require.Contains(t, parts[2]["merge"], "list(append)")
}

func TestMerge_values(t *testing.T) {
	for name, c := range map[string]struct{ user, boot, want, err string }{
		"the user's plain value stays":     {user: "timezone: UTC", boot: "timezone: Europe/Oslo", want: "timezone: UTC"},
		"what only one has":                {user: "a: 1", boot: "b: 2", want: "a: 1\nb: 2"},
		"lists are joined, ours last":      {user: "runcmd: [a]", boot: "runcmd: [b]", want: "runcmd: [a, b]"},
		"a plain item is not repeated":     {user: "packages: [jq]", boot: "packages: [jq, curl]", want: "packages: [jq, curl]"},
		"a mapping item is kept":           {user: "users: [{name: a}]", boot: "users: [{name: a}]", want: "users: [{name: a}, {name: a}]"},
		"mappings are merged deeply":       {user: "a: {b: {c: 1}}", boot: "a: {b: {c: 2, d: 3}}", want: "a: {b: {c: 1, d: 3}}"},
		"null gives way":                   {user: "runcmd:", boot: "runcmd: [b]", want: "runcmd: [b]"},
		"null takes nothing away":          {user: "runcmd: [a]", boot: "runcmd: ~", want: "runcmd: [a]"},
		"only a null document":             {user: "~", boot: "a: 1", want: "a: 1"},
		"only a comment":                   {user: "# nothing", boot: "a: 1", want: "a: 1"},
		"the letters stay":                 {user: "a: 0644\nb: yes", boot: "c: 1_000", want: "a: 0644\nb: yes\nc: 1_000"},
		"a list against a mapping":         {user: "a: [1]", boot: "a: {b: 1}", err: "both set a, one as a list"},
		"text against a list, deep":        {user: "a: {b: {c: x}}", boot: "a: {b: {c: [x]}}", err: "both set a.b.c"},
		"twice the same key":               {user: "a: 1\na: 2", boot: "b: 1", err: "a is given twice"},
		"twice the same key in bootstrap":  {user: "b: 1", boot: "a: 1\na: 2", err: "a is given twice"},
		"twice the same key further down":  {user: "x: {a: 1}", boot: "x: {b: 1, b: 2}", err: "x.b is given twice"},
		"a list is no cloud-config":        {user: "- a", boot: "b: 1", err: "not a YAML mapping"},
		"a list as a key":                  {user: "? - a\n: b", boot: "? \n: c", err: "a list or a mapping as a key"},
		"a mapping as a key, deep inside":  {user: "a:\n- ? {b: c}\n  : d", boot: "e: 1", err: "a list or a mapping as a key"},
		"an alias of a list as a key":      {user: "a: &x [1]\nb:\n  *x : 2", boot: "e: 1", err: "a list or a mapping as a key"},
		"several documents":                {user: "a: 1\n---\nb: 1", boot: "c: 1", err: "more than one YAML document"},
		"an alias without an anchor":       {user: "a: *x", boot: "b: 1", err: "not valid YAML"},
		"an alias that holds itself":       {user: "a: &x [*x]", boot: "b: 1", err: "YAML"},
		"aliases that multiply":            {user: laughs(), boot: "b: 1", err: "too large or too deep"},
		"depth":                            {user: "a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), boot: "b: 1", err: "too deep"},
		"aliases are written out in words": {user: "a: &x [1]\nb: *x", boot: "b: [2]", want: "a: [1]\nb: [1, 2]"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := userdata.Merge(userdata.Input{User: []byte("#cloud-config\n" + c.user + "\n"), Bootstrap: []byte("#cloud-config\n" + c.boot + "\n")})
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "#cloud-config\n"+c.want+"\n", string(got))
		})
	}
}

// laughs is small and would be a billion items written out.
func laughs() string {
	var out strings.Builder
	out.WriteString("a0: &a0 [x]\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&out, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return out.String()
}

func TestMerge_hostname(t *testing.T) {
	for name, c := range map[string]struct{ user, boot, want string }{
		"set when nobody does": {user: "a: 1", want: `hostname: "0123"`},
		"the user's stays":     {user: "hostname: mine", want: "hostname: mine"},
		"a full name stays":    {boot: "fqdn: m.example.com", want: "fqdn: m.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := userdata.Merge(userdata.Input{User: []byte("#cloud-config\n" + c.user), Bootstrap: []byte("#cloud-config\n" + c.boot), Hostname: "0123"})
			require.NoError(t, err)
			require.Contains(t, string(got), c.want)
			require.LessOrEqual(t, strings.Count(string(got), "name: ")+strings.Count(string(got), "fqdn: "), 1)
		})
	}
}

func TestMerge_two_scripts_do_not_overwrite_each_other(t *testing.T) {
	got, err := userdata.Merge(userdata.Input{User: []byte("#!/bin/sh\necho user\n"), Bootstrap: []byte("#!/bin/sh\necho boot\n")})
	require.NoError(t, err)
	var config struct {
		WriteFiles []struct{ Path, Content string } `yaml:"write_files"`
		Runcmd     [][]string
	}
	require.NoError(t, yaml.Unmarshal(got, &config))
	require.Len(t, config.WriteFiles, 2)
	require.Equal(t, "#!/bin/sh\necho user\n", unpack(t, config.WriteFiles[0].Content))
	require.Equal(t, "#!/bin/sh\necho boot\n", unpack(t, config.WriteFiles[1].Content))
	require.Equal(t, [][]string{{"/bin/sh", config.WriteFiles[0].Path}, {"/bin/sh", config.WriteFiles[1].Path}}, config.Runcmd)
}
