package userdata_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/userdata"
)

// cloudConfig is as much of cloud-init's own schema as these tests look at.
type cloudConfig struct {
	Hostname   string
	Users      []any
	Packages   []string
	BootCmd    []any                                                          `yaml:"bootcmd"`
	RunCmd     []any                                                          `yaml:"runcmd"`
	WriteFiles []struct{ Path, Permissions, Owner, Encoding, Content string } `yaml:"write_files"`
}

func decode(t *testing.T, data []byte) cloudConfig {
	t.Helper()
	require.Equal(t, userdata.CloudConfig, userdata.Detect(data), string(data))
	var out cloudConfig
	require.NoError(t, yaml.Unmarshal(data, &out), string(data))
	return out
}

func merge(t *testing.T, user, boot string) []byte {
	t.Helper()
	got, err := userdata.Merge(userdata.Input{User: []byte(user), Bootstrap: []byte(boot)})
	require.NoError(t, err)
	return got
}

// Texts as cloud-init knows them by their first line (its user-data documentation), with what we make of each.
func TestDetect_every_beginning_cloud_init_knows(t *testing.T) {
	blank := strings.Repeat(" \r\n\t", 2000)
	for text, want := range map[string]userdata.Format{
		"#!/bin/sh\n":                                    userdata.Script,
		"#! /bin/sh\n":                                   userdata.Script,
		"#!/usr/bin/env python3\r\n":                     userdata.Script,
		blank + "#!/bin/sh\n":                            userdata.Script,
		"#cloud-config\n":                                userdata.CloudConfig,
		"#cloud-config # mine\n":                         userdata.CloudConfig,
		blank + "#cloud-config":                          userdata.CloudConfig,
		"#CLOUD-CONFIG\n":                                userdata.CloudConfig,
		"#cloud-config-archive\n":                        userdata.Opaque,
		"#cloud-config-jsonp\n":                          userdata.Opaque,
		"#cloud-configuration\n":                         userdata.Opaque,
		"# cloud-config\n":                               userdata.Opaque,
		"#cloud-boothook\n":                              userdata.Opaque,
		"#include\nhttps://x\n":                          userdata.Opaque,
		"#include-once\n":                                userdata.Opaque,
		"#part-handler\n":                                userdata.Opaque,
		"#upstart-job\n":                                 userdata.Opaque,
		"## template: jinja\n#cloud-config\n":            userdata.Jinja,
		"## Template: Jinja\n#!/bin/sh\n":                userdata.Jinja,
		"## template:jinja\n":                            userdata.Opaque,
		"Content-Type: multipart/mixed; boundary=x\n":    userdata.MultiPart,
		"content-type: Multipart/Alternative;boundary=x": userdata.MultiPart,
		"MIME-Version: 1.0\n":                            userdata.MultiPart,
		"Content-Type: text/plain\n":                     userdata.Opaque,
		`{"ignition":{"version":"3.4.0"}}`:               userdata.Opaque,
		"version: v1alpha1\nmachine:\n  type: worker\n":  userdata.Opaque,
		"\xff\xfe#\x00!\x00":                             userdata.Opaque,
		blank:                                            userdata.Empty,
		"":                                               userdata.Empty,
		"\x00":                                           userdata.Opaque,
	} {
		require.Equal(t, want, userdata.Detect([]byte(text)), "%.60q", strings.TrimLeft(text, " \r\n\t"))
	}
}

// Notepad puts a mark before the text. A cloud-config stays one; what is opaque is handed on untouched.
func TestMerge_takes_texts_with_a_byte_order_mark(t *testing.T) {
	const mark = "\xef\xbb\xbf"
	require.Equal(t, merge(t, "#cloud-config\na: 1\n", "#!/bin/sh\n"), merge(t, mark+"#cloud-config\na: 1\n", mark+"#!/bin/sh\n"))
	require.Equal(t, merge(t, "## template: jinja\n#cloud-config\n", "#!/bin/sh\n"), merge(t, mark+"## template: jinja\n#cloud-config\n", "#!/bin/sh\n"))
	require.Equal(t, mark+"{}", string(merge(t, mark+"{}", "")))
}

// kubeadm's bootstrap provider writes files and commands; a user's own come first, and none of the provider's is lost.
func TestMerge_with_kubeadms_bootstrap_provider(t *testing.T) {
	boot := `#cloud-config

write_files:
-   path: /run/kubeadm/kubeadm.yaml
    owner: root:root
    permissions: '0640'
    content: |
      ---
      apiVersion: kubeadm.k8s.io/v1beta4
      kind: ClusterConfiguration
-   path: /run/cluster-api/placeholder
    owner: root:root
    permissions: '0640'
    content: "This placeholder file is used to create the /run/cluster-api sub directory in a way that is compatible with both Linux and Windows"
runcmd:
  - 'swapoff -a'
  - sleep 5
  - 'kubeadm init --config /run/kubeadm/kubeadm.yaml  && echo success > /run/cluster-api/bootstrap-success.complete'
  - sleep 5
`
	got := decode(t, merge(t, "#cloud-config\nruncmd:\n- sleep 5\n- [sh, -c, 'echo user']\nwrite_files:\n- {path: /etc/motd, content: hi}\n", boot))
	require.Equal(t, []any{"sleep 5", []any{"sh", "-c", "echo user"}, "swapoff -a", "sleep 5",
		"kubeadm init --config /run/kubeadm/kubeadm.yaml  && echo success > /run/cluster-api/bootstrap-success.complete", "sleep 5"}, got.RunCmd)
	require.Len(t, got.WriteFiles, 3)
	require.Equal(t, "/etc/motd", got.WriteFiles[0].Path)
	require.Equal(t, "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n", got.WriteFiles[1].Content)
	require.Equal(t, "0640", got.WriteFiles[1].Permissions)
}

// Lists that both have: commands all run, in their order; plain names are not repeated; the order of neither changes.
func TestMerge_lists_that_both_have(t *testing.T) {
	for name, tt := range map[string]struct {
		user, boot string
		want       cloudConfig
	}{
		"the same command twice":          {"runcmd: [a, b]", "runcmd: [b, a]", cloudConfig{RunCmd: []any{"a", "b", "b", "a"}}},
		"a command twice in one":          {"runcmd: [x]", "runcmd: [a, a]", cloudConfig{RunCmd: []any{"x", "a", "a"}}},
		"early commands too":              {"bootcmd: [a]", "bootcmd: [a]", cloudConfig{BootCmd: []any{"a", "a"}}},
		"packages once":                   {"packages: [jq, curl]", "packages: [curl, git]", cloudConfig{Packages: []string{"jq", "curl", "git"}}},
		"packages as one wrote them":      {"packages: [jq, jq]", "packages: [git, git]", cloudConfig{Packages: []string{"jq", "jq", "git", "git"}}},
		"the default user once":           {"users: [default, {name: me}]", "users: [default, {name: ops}]", cloudConfig{Users: []any{"default", map[string]any{"name": "me"}, map[string]any{"name": "ops"}}}},
		"users that only ours has":        {"packages: [jq]", "users: [{name: ops}]", cloudConfig{Packages: []string{"jq"}, Users: []any{map[string]any{"name": "ops"}}}},
		"an empty list gives nothing":     {"runcmd: []", "runcmd: [a]", cloudConfig{RunCmd: []any{"a"}}},
		"an empty list takes nothing":     {"runcmd: [a]", "runcmd: []", cloudConfig{RunCmd: []any{"a"}}},
		"a number and a text of its form": {"packages: [1]", "packages: ['1', 2]", cloudConfig{Packages: []string{"1", "2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, decode(t, merge(t, "#cloud-config\n"+tt.user+"\n", "#cloud-config\n"+tt.boot+"\n")))
		})
	}
}

// YAML as people write it comes out as they wrote it: YAML 1.1, which cloud-init reads, would see something else in a changed letter.
func TestMerge_keeps_what_users_wrote(t *testing.T) {
	for name, text := range map[string]string{
		"octal numbers":     "write_files: [{path: /x, permissions: 0644}]",
		"yes and no":        "ssh_pwauth: no\npackage_update: yes",
		"times of day":      "x: 12:30:45",
		"dates":             "x: 2001-12-14",
		"large numbers":     "x: 123456789012345678901234567890",
		"quotes":            `x: "a\tb"` + "\ny: 'it''s'",
		"a block":           "x: |\n  line 1\n    indented\n\n  line 3",
		"a folded block":    "x: >-\n  line 1",
		"comments":          "# before\nx: 1 # behind",
		"keys in quotes":    `"a b": 1`,
		"null in each form": "a: ~\nb: null\nc:",
		"unicode":           "x: größe 東京",
		"tags":              "x: !!binary aGVsbG8=",
	} {
		t.Run(name, func(t *testing.T) {
			want := "#cloud-config\n" + text + "\n"
			require.Equal(t, want, string(merge(t, want, "")))
			require.Equal(t, want+"added: 1\n", string(merge(t, want, "#cloud-config\nadded: 1\n")))
		})
	}
}

// Where the YAML library has another way to write a text, the text is the same.
func TestMerge_means_what_users_wrote(t *testing.T) {
	for _, text := range []string{`"a\u0041\x42\e"`, ">-\n  line 1\n  line 2\n\n  line 4", "🚀 größe", "|+\n  a\n\n", `"\U0001F680"`, "'  '", "!!str 1", "? a"} {
		var want, got map[string]any
		config := "#cloud-config\nx: " + text + "\n"
		if yaml.Unmarshal([]byte(config), &want) != nil {
			continue
		}
		require.NoError(t, yaml.Unmarshal(merge(t, config, ""), &got))
		require.Equal(t, want, got, text)
	}
}

func manyParts(count int) string {
	return "Content-Type: multipart/mixed; boundary=b\n\n" + strings.Repeat("--b\nContent-Type: text/plain\n\nx\n", count) + "--b--\n"
}

// Every error says which of the two inputs it is about and what is wrong, and repeats nothing of them.
func TestMerge_errors_in_full_words(t *testing.T) {
	config := func(text string) string { return "#cloud-config\n" + text + "\n" }
	for name, tt := range map[string]struct{ user, boot, err string }{
		"no YAML":         {config("a: [MARKER"), "", "reading the user's own user data: line 2: it is not valid YAML: did not find expected ',' or ']'"},
		"no YAML from us": {"", config("b: 1\n\na: [MARKER"), "reading the bootstrap data: line 4: it is not valid YAML: did not find expected ',' or ']'"},
		"no YAML in a template": {"", "\n## template: jinja\n" + config("b: 1\na: {MARKER"),
			"reading the bootstrap data: line 5: it is not valid YAML: did not find expected ',' or '}'"},
		"tabs":                 {config("a:\n\tb: MARKER"), "", "reading the user's own user data: line 3: it is not valid YAML: found character that cannot start any token"},
		"no anchor":            {config("a: *MARKER"), "", "reading the user's own user data: it is not valid YAML: an alias names an anchor that is not there, or its own"},
		"a list as a key":      {config("b: 1\n? [MARKER]\n: 1"), "", "reading the user's own user data: line 2: it has a list or a mapping as a key, which cloud-init cannot read"},
		"text":                 {config("MARKER"), "", "reading the user's own user data: line 2: it is not a YAML mapping"},
		"two documents":        {config("a: MARKER\n---\nb: 1"), "", "reading the user's own user data: it has more than one YAML document"},
		"a key twice":          {config("a: MARKER\na: MARKER"), "", "merging user data: the key a is given twice in one document"},
		"a list and a mapping": {config("a: {b: MARKER}"), config("a: [MARKER]"), "merging user data: the format cannot be merged: both set a, one as a list or mapping and the other not"},
		"opaque and ours": {"MARKER", config("a: 1"), "merging user data: the format cannot be merged: the user's own user data is neither a script, nor cloud-config, " +
			"nor MIME multi-part, so it cannot be joined with the bootstrap data"},
		"ours is opaque": {"#!/bin/sh\n", `{"ignition":"MARKER"}`, "merging user data: the format cannot be merged: the bootstrap data is neither a script, nor cloud-config, " +
			"nor MIME multi-part, so it cannot be joined with the user's own user data"},
		"no MIME":          {"MIME-Version: 1.0\nMARKER", "#!/bin/sh\n", "reading the user's own user data: its MIME header cannot be read"},
		"MIME of text":     {"", "MIME-Version: 1.0\nContent-Type: text/plain\n\nMARKER", "reading the bootstrap data: it is not MIME multi-part with a boundary"},
		"MIME cut off":     {"Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\nMARKER", "", "reading the user's own user data: its MIME parts cannot be read"},
		"no boundary":      {"Content-Type: multipart/mixed\n\nMARKER", "", "reading the user's own user data: it is not MIME multi-part with a boundary"},
		"too many parts":   {manyParts(65), "", "reading the user's own user data: it has more than 64 MIME parts"},
		"too many of both": {manyParts(64), config("a: MARKER"), "merging user data: 65 parts, at most 64 are accepted"},
		"broken gzip":      {"\x1f\x8b\x08MARKER", "", "reading the user's own user data: unzipping: unexpected EOF"},
		"too large":        {strings.Repeat("x", userdata.MaxBytes+1), "", "reading the user's own user data: the data is larger than 4194304 bytes"},
		"large in depth":   {config("a: " + strings.Repeat("{b: ", 150) + "MARKER" + strings.Repeat("}", 150)), "", "reading the user's own user data: its YAML is too large or too deep"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := userdata.Merge(userdata.Input{User: []byte(tt.user), Bootstrap: []byte(tt.boot)})
			require.EqualError(t, err, tt.err)
			require.Nil(t, got)
			require.NotContains(t, err.Error(), "MARKER")
		})
	}
}

// Parts that a user wrote reach the server with the body and the headers they had.
func TestMerge_hands_parts_on_untouched(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\necho encoded\n"))
	user := "Content-Type: multipart/mixed; boundary=\"==x==\"\r\nMIME-Version: 1.0\r\n\r\npreamble\r\n" +
		"--==x==\r\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\r\nContent-Transfer-Encoding: base64\r\n" +
		"Content-Disposition: attachment; filename=\"run.sh\"\r\n\r\n" + encoded + "\r\n" +
		"--==x==\r\nContent-Type: text/cloud-boothook\r\n\r\n#cloud-boothook\r\necho = --==y==\r\n" +
		"--==x==\r\nContent-Type: multipart/mixed; boundary=inner\r\n\r\n--inner\r\n\r\nnested\r\n--inner--\r\n" +
		"--==x==--\r\nepilogue"
	got, err := userdata.Merge(userdata.Input{User: []byte(user), Bootstrap: []byte("#!/bin/sh\necho boot\n"), Hostname: "pool-1"})
	require.NoError(t, err)
	parts := bodies(t, got)
	require.Len(t, parts, 5)
	require.Equal(t, map[string]string{"type": "text/x-shellscript", "body": encoded, "merge": ""}, parts[0])
	require.Equal(t, map[string]string{"type": "text/cloud-boothook", "body": "#cloud-boothook\r\necho = --==y==", "merge": ""}, parts[1])
	require.Equal(t, "multipart/mixed", parts[2]["type"])
	require.Contains(t, parts[2]["body"], "nested")
	require.Equal(t, "text/cloud-config", parts[3]["type"])
	require.Equal(t, "#cloud-config\nhostname: \"pool-1\"\n", parts[4]["body"])
	require.Contains(t, string(got), "Content-Disposition: attachment; filename=\"run.sh\"")
	require.Contains(t, string(got), "Content-Transfer-Encoding: base64")
	again, err := userdata.Merge(userdata.Input{User: got})
	require.NoError(t, err)
	require.Len(t, bodies(t, again), 5, "what was merged can be merged again")
}

// A host name is text, whatever YAML would make of it.
func TestMerge_hostnames_are_text(t *testing.T) {
	for _, name := range []string{"pool-1", "0123", "1e3", "yes", "null", "true", "0x1f", "12-30", "a.b.example.com", "x: y", `a"b`} {
		got, err := userdata.Merge(userdata.Input{Hostname: name})
		require.NoError(t, err)
		require.Equal(t, name, decode(t, got).Hostname)
		require.Equal(t, fmt.Sprintf("#cloud-config\nhostname: %q\n", name), string(got))
	}
}

// Many machines of a pool are merged from one Secret: nothing is changed, and all get the same.
func TestMerge_changes_no_input(t *testing.T) {
	user, boot := []byte("#cloud-config\nx: &a [1]\ny: *a\nruncmd: [u]\n"), []byte("#cloud-config\ny: [2]\nruncmd: [b]\n")
	before := bytes.Clone(user)
	want := merge(t, string(user), string(boot))
	got, err := userdata.Merge(userdata.Input{User: user, Bootstrap: boot})
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, before, user)
	require.Equal(t, "#cloud-config\nx: [1]\ny: [1, 2]\nruncmd: [u, b]\n", string(want), "an alias is a copy")
}

func drivers() []string {
	return []string{"digitalocean", "amazonec2", "azure", "google", "openstack", "rackspace", "exoscale", "vmwarevsphere", "pod", "any-plugin"}
}

// What does not fit is told in the cloud's own measure, with the driver's name, and never cut.
func TestUserData_that_does_not_fit(t *testing.T) {
	for _, driver := range drivers() {
		limits := clouds.Of(driver).UserData.Limit
		if limits.Bytes == 0 {
			continue
		}
		_, err := userdata.UserData(driver, userdata.Input{User: noise(2 * limits.Bytes), Bootstrap: []byte("#!/bin/sh\n")})
		var tooLarge *userdata.TooLargeError
		require.ErrorAs(t, err, &tooLarge, driver)
		require.Equal(t, driver, tooLarge.Driver)
		require.Equal(t, limits.Bytes, tooLarge.Limit)
		require.EqualError(t, err, fmt.Sprintf("the user data has %d bytes, driver %s takes at most %d", tooLarge.Size, driver, limits.Bytes))
	}
}

// FuzzUserData: for every driver the result fits its cloud and is, unzipped, exactly what was merged; or there is an error.
func FuzzUserData(f *testing.F) {
	f.Add([]byte("#cloud-config\na: 1\n"), []byte("#!/bin/sh\necho x\n"), uint16(0))
	f.Add([]byte("#cloud-config\nx: a"), []byte(""), uint16(60_000))
	f.Add([]byte("{}"), []byte(""), uint16(20_000))
	f.Add([]byte("## template: jinja\n#cloud-config\n"), []byte("Content-Type: multipart/mixed; boundary=x\n\n--x--\n"), uint16(1))
	f.Fuzz(func(t *testing.T, user, boot []byte, more uint16) {
		input := userdata.Input{User: append(user, strings.Repeat("7", int(more))...), Bootstrap: boot, Hostname: "h"}
		merged, mergeErr := userdata.Merge(input)
		for _, driver := range drivers() {
			got, err := userdata.UserData(driver, input)
			if err != nil {
				require.Nil(t, got)
				continue
			}
			require.NoError(t, mergeErr)
			limits, size := clouds.Of(driver).UserData.Limit, len(got)
			if limits.Base64 {
				size = base64.StdEncoding.EncodedLen(size)
			}
			require.LessOrEqual(t, size, limitOf(driver), driver)
			if !bytes.Equal(got, merged) {
				require.True(t, limits.Gzip, driver)
				plain, err := userdata.Unzip(got)
				require.NoError(t, err)
				require.Equal(t, merged, plain, driver)
			}
			if clouds.Of(driver).UserData.CloudConfigOnly && len(got) > 0 {
				require.Equal(t, userdata.CloudConfig, userdata.Detect(got))
			}
		}
	})
}
