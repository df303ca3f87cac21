package userdata_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/drover-project/drover/userdata"
)

var update = flag.Bool("update", false, "write the golden files")

// TestMerge: each file of testdata/merge holds "user" and "bootstrap", and "want" or the text of an "error".
func TestMerge(t *testing.T) {
	files, err := filepath.Glob("testdata/merge/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			got, err := userdata.Merge(userdata.Input{
				User: section(archive, "user"), Bootstrap: section(archive, "bootstrap"), Hostname: strings.TrimSpace(string(section(archive, "hostname"))),
			})
			if want := strings.TrimSpace(string(section(archive, "error"))); want != "" {
				require.ErrorContains(t, err, want)
				return
			}
			require.NoError(t, err)
			if *update {
				setSection(archive, "want", bytes.ReplaceAll(got, []byte("\r\n"), []byte("\n")))
				require.NoError(t, os.WriteFile(file, txtar.Format(archive), 0o600))
			}
			require.Equal(t, string(section(archive, "want")), strings.ReplaceAll(string(got), "\r\n", "\n"))
		})
	}
}

func section(archive *txtar.Archive, name string) []byte {
	for _, file := range archive.Files {
		if file.Name == name {
			return file.Data
		}
	}
	return nil
}

func setSection(archive *txtar.Archive, name string, data []byte) {
	for i := range archive.Files {
		if archive.Files[i].Name == name {
			archive.Files[i].Data = data
			return
		}
	}
	archive.Files = append(archive.Files, txtar.File{Name: name, Data: data})
}

func zipped(tb testing.TB, data string) []byte {
	tb.Helper()
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	_, err := writer.Write([]byte(data))
	require.NoError(tb, err)
	require.NoError(tb, writer.Close())
	return out.Bytes()
}

func TestMerge_unzips_its_inputs(t *testing.T) {
	plain, err := userdata.Merge(userdata.Input{User: []byte("#cloud-config\na: 1\n"), Bootstrap: []byte("#!/bin/sh\n")})
	require.NoError(t, err)
	unzipped, err := userdata.Merge(userdata.Input{User: zipped(t, "#cloud-config\na: 1\n"), Bootstrap: zipped(t, "#!/bin/sh\n")})
	require.NoError(t, err)
	require.Equal(t, string(plain), string(unzipped))
	_, err = userdata.Merge(userdata.Input{Bootstrap: zipped(t, strings.Repeat("x", userdata.MaxBytes+1))})
	require.ErrorContains(t, err, "larger than")
}

// Each input is held to a number of YAML nodes, which aliases could multiply; what both have together is not.
func TestMerge_joins_two_large_documents(t *testing.T) {
	large := func(key string) []byte {
		return []byte("#cloud-config\n" + key + ":\n" + strings.Repeat("- x\n", 15_000))
	}
	got, err := userdata.Merge(userdata.Input{User: large("a"), Bootstrap: large("b")})
	require.NoError(t, err)
	var config map[string][]string
	require.NoError(t, yaml.Unmarshal(got, &config))
	require.Len(t, config["a"], 15_000)
	require.Len(t, config["b"], 15_000)
}

func unpack(t *testing.T, content string) string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(content)
	require.NoError(t, err)
	reader, err := gzip.NewReader(bytes.NewReader(raw))
	require.NoError(t, err)
	out, err := io.ReadAll(reader)
	require.NoError(t, err)
	return string(out)
}

// FuzzMerge: data is merged the same each time, into what can be merged again; and what the user set stays.
func FuzzMerge(f *testing.F) {
	f.Add([]byte("#cloud-config\na: &x [1, *x]\n"), []byte("#!/bin/sh\n"), "host")
	f.Add([]byte("#cloud-config\nruncmd:\n- [a]\nusers: [default]\n"), []byte("#cloud-config\nruncmd: [b]\n"), "")
	f.Add([]byte("## template: jinja\n#cloud-config\n{{ a }}"), []byte("Content-Type: multipart/mixed; boundary=x\n\n--x\n\nbody\n--x--\n"), "h")
	f.Add([]byte("#cloud-config\nusers:\n- name: a\nssh_pwauth: no\nmode: 0644\n"), []byte("#cloud-config\nusers:\n- name: a\n  sudo: x\nssh_pwauth: yes\n"), "1.0")
	f.Add([]byte("#cloud-config\na: {b: , c}\nd: >+\n  e\n\n\n"), []byte("#cloud-config\nf: |+\n  g\n\n\n\n# h\n"), "")
	f.Add(zipped(f, "#cloud-config\nb: ~\n"), zipped(f, "#!/bin/sh\nexit\n"), "0644")
	f.Fuzz(func(t *testing.T, user, boot []byte, hostname string) {
		input := userdata.Input{User: user, Bootstrap: boot, Hostname: hostname}
		got, err := userdata.Merge(input)
		if err != nil {
			return
		}
		again, err := userdata.Merge(input)
		require.NoError(t, err)
		require.Equal(t, got, again)
		user, boot = unzipped(t, user), unzipped(t, boot)
		if userdata.Detect(user) == userdata.Opaque || userdata.Detect(boot) == userdata.Opaque {
			return // handed over as it is
		}
		require.Contains(t, []userdata.Format{userdata.CloudConfig, userdata.MultiPart, userdata.Empty}, userdata.Detect(got), "%q", got)
		again, err = userdata.Merge(userdata.Input{User: got})
		require.NoError(t, err, "what was merged can be read again")
		require.Equal(t, userdata.Detect(got), userdata.Detect(again))
		if userdata.Detect(user) == userdata.CloudConfig && userdata.Detect(got) == userdata.CloudConfig {
			require.Subset(t, plainValues(t, got), plainValues(t, user), "what the user set stays")
		}
	})
}

// unzipped is data as it was before it was zipped, and without a byte order mark.
func unzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	plain, err := userdata.Unzip(data)
	require.NoError(t, err)
	return bytes.TrimPrefix(plain, []byte("\xef\xbb\xbf"))
}

// plainValues are the texts of a cloud-config's uppermost keys and values, where both are plain.
func plainValues(t *testing.T, data []byte) map[string]string {
	t.Helper()
	_, text, _ := bytes.Cut(bytes.TrimLeft(data, " \t\r\n"), []byte("\n"))
	var document yaml.Node
	require.NoError(t, yaml.Unmarshal(text, &document))
	values := map[string]string{}
	if len(document.Content) == 0 {
		return values
	}
	root := document.Content[0]
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if key.Kind == yaml.ScalarNode && value.Kind == yaml.ScalarNode && value.Tag != "!!null" {
			values[key.Value] = value.Value
		}
	}
	return values
}

// TestMerge_marker_exit_code: cloud-init makes one shell script of all commands. The bootstrap script's exit code is that script's too,
// and stands in the mark.
func TestMerge_marker_exit_code(t *testing.T) {
	for _, code := range []string{"0", "3", "255"} {
		got, err := userdata.Merge(userdata.Input{Bootstrap: []byte("#!/bin/sh\n"), User: []byte("#cloud-config\nruncmd: ['false']\n"), Marker: "u-1"})
		require.NoError(t, err)
		var config struct{ Runcmd []any }
		require.NoError(t, yaml.Unmarshal(got, &config))
		require.Equal(t, []any{"false", ": > /var/lib/drover/delivered/u-1.began", []any{"/bin/sh", "/var/lib/drover/bootstrap/bootstrap.sh"}}, config.Runcmd[:3])
		dir := t.TempDir()
		mark := strings.ReplaceAll(config.Runcmd[3].(string), userdata.DeliveredDir, dir)
		err = exec.CommandContext(t.Context(), "/bin/sh", "-c", "false\nsh -c 'exit "+code+"'\n"+mark+"\n").Run()
		if code == "0" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, "exit status "+code)
		}
		told, err := os.ReadFile(filepath.Join(dir, "u-1.ran"))
		require.NoError(t, err)
		require.Equal(t, code+"\n", string(told))
	}
}

// TestMerge_begins: commands of the user that end the script leave no Marker.began, in one document and in several parts.
func TestMerge_begins(t *testing.T) {
	const begins = ": > /var/lib/drover/delivered/u-1.began"
	boots := map[string]string{"a script": "#!/bin/sh\n", "a template": "## template: jinja\n#cloud-config\nruncmd: ['echo {{ v1.region }}']\n"}
	for name, boot := range boots {
		got, err := userdata.Merge(userdata.Input{Bootstrap: []byte(boot), User: []byte("#cloud-config\nruncmd: ['exit 0']\n"), Marker: "u-1"})
		require.NoError(t, err, name)
		text := string(got)
		ours := strings.Index(text, begins)
		require.Less(t, strings.Index(text, "exit 0"), ours, name)
		require.Less(t, ours, max(strings.LastIndex(text, "bootstrap.sh"), strings.Index(text, "echo {{")), name)
		require.Contains(t, text, `content: "u-1\nbegan\n"`, name)

		alone, err := userdata.Merge(userdata.Input{Bootstrap: []byte(boot), Marker: "u-1"})
		require.NoError(t, err, name)
		require.NotContains(t, string(alone), "began", "no command is before ours")
	}
	for commands, began := range map[string]bool{"exit 0": false, "set -e\nfalse": false, "set -e\ntrue": true, "false": true} {
		dir := t.TempDir()
		_ = exec.CommandContext(t.Context(), "/bin/sh", "-c", commands+"\n"+strings.ReplaceAll(begins, userdata.DeliveredDir, dir)).Run() // its code does not count
		_, err := os.Stat(filepath.Join(dir, "u-1.began"))
		require.Equal(t, began, err == nil, commands)
	}
}

// TestMerge_marker: whatever form the data takes, cloud-init makes the files by which the Job sees that it arrived.
func TestMerge_marker(t *testing.T) {
	const template = "## template: jinja\n#cloud-config\nruncmd: ['echo {{ v1.region }}']\n"
	for name, input := range map[string]userdata.Input{
		"a script":   {Bootstrap: []byte("#!/bin/sh\n"), User: []byte("#cloud-config\nruncmd:\n- mine\n")},
		"a config":   {Bootstrap: []byte("#cloud-config\nwrite_files:\n- path: /x\n")},
		"a template": {Bootstrap: []byte(template)},
	} {
		input.Marker = "u-1"
		got, err := userdata.Merge(input)
		require.NoError(t, err, name)
		require.Contains(t, string(got), "- path: /var/lib/drover/delivered/u-1\n    permissions: \"0644\"\n    content: \"u-1", name)
		require.Contains(t, string(got), "  - code=$?; echo $code > /var/lib/drover/delivered/u-1.code && "+
			"mv /var/lib/drover/delivered/u-1.code /var/lib/drover/delivered/u-1.ran; (exit $code)\n", name)
	}
	for name, input := range map[string]userdata.Input{"nothing": {}, "the user's only": {User: []byte("#cloud-config\na: 1\n")}, "opaque": {Bootstrap: []byte("{}")}} {
		input.Marker = "u-1"
		got, err := userdata.Merge(input)
		require.NoError(t, err, name)
		require.NotContains(t, string(got), "u-1", name)
	}
}
