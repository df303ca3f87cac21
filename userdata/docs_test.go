package userdata_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/clouds"
)

// words is how docs/userdata.md writes a limit.
func words(takes clouds.UserData) (limit, zips string) {
	limits := takes.Limit
	size := fmt.Sprintf("%d KiB", limits.Bytes>>10)
	switch {
	case takes.CloudConfigOnly:
		size = "none"
	case limits.Bytes == 0:
		size = "4 MiB"
	case limits.Bytes%1024 != 0:
		size = fmt.Sprintf("%d,%d bytes", limits.Bytes/1000, limits.Bytes%1000)
	}
	if limits.Base64 {
		size += " in base64"
	}
	return size, map[bool]string{true: "yes", false: "no"}[limits.Gzip]
}

// The page that tells users the limits tells those that are checked.
func TestLimitsAreAsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "userdata.md"))
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(page), "| driver | limit | zipped when larger |")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n\n")
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z0-9, ]+) \| (.*) \| (.*) \|$`).FindAllStringSubmatch(table, -1) {
		for driver := range strings.SplitSeq(row[1], ", ") {
			documented[driver] = true
			limit, zips := words(clouds.Of(driver).UserData)
			require.True(t, strings.HasPrefix(row[2], limit), "%s: the page says %q, the code %q", driver, row[2], limit)
			require.True(t, strings.HasPrefix(row[3], zips), "%s: the page says %q, the code %q", driver, row[3], zips)
		}
	}
	for _, driver := range drivers()[:9] {
		require.True(t, documented[driver], "%s is not in the table", driver)
	}
	require.True(t, documented["others"])
}

// Scripts as people upload them arrive byte by byte, and are run by what their first line names.
func TestMerge_scripts_of_every_kind(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		runs   []any
	}{
		"plain":           {"#!/bin/sh\necho x\n", []any{"/bin/sh"}},
		"without an end":  {"#!/bin/sh\necho x", []any{"/bin/sh"}},
		"of one line":     {"#!/bin/sh", []any{"/bin/sh"}},
		"from Windows":    {"#!/bin/bash\r\necho x\r\n", []any{"/bin/bash"}},
		"python":          {"#!/usr/bin/env python3\nprint('x')\n", []any{"/usr/bin/env", "python3"}},
		"with an option":  {"#!/bin/bash -eux\ntrue\n", []any{"/bin/bash", "-eux"}},
		"with two":        {"#!/bin/bash -e -x\ntrue\n", []any{"/bin/bash", "-e -x"}},
		"with a tab":      {"#! /usr/bin/env\tpython3 \r\nprint('ünïcode')\n", []any{"/usr/bin/env", "python3"}},
		"of no program":   {"#!\necho x\n", []any{"/bin/sh"}},
		"with our signs":  {"#!/opt/a'b\"c$(touch x)`y`;z\n", []any{"/opt/a'b\"c$(touch", "x)`y`;z"}},
		"with a program":  {"#!/bin/sh\nexec tail -n +3 $0 | sh\n\x7fELF\x00\xff\xfe binary\n", []any{"/bin/sh"}},
		"with YAML in it": {"#!/bin/sh\ncat <<EOF\n#cloud-config\nruncmd: [evil]\n--boundary\nEOF\n", []any{"/bin/sh"}},
		"with our marks":  {"#!/bin/sh\necho '\"' \"'\" `x` $(y) \\ {{ z }} %s\n", []any{"/bin/sh"}},
		"of a megabyte":   {"#!/bin/sh\n" + strings.Repeat("echo 0123456789\n", 1<<16), []any{"/bin/sh"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := decode(t, merge(t, "#cloud-config\nruncmd: [first]\n", tt.script))
			require.Equal(t, []any{"first", append(tt.runs, "/var/lib/drover/bootstrap/bootstrap.sh")}, got.RunCmd)
			require.Len(t, got.WriteFiles, 1)
			file := got.WriteFiles[0]
			require.Equal(t, []string{"/var/lib/drover/bootstrap/bootstrap.sh", "0600", "root:root", "gz+b64"},
				[]string{file.Path, file.Permissions, file.Owner, file.Encoding})
			require.Equal(t, tt.script, unpack(t, file.Content))
		})
	}
}

// The same inputs give the same bytes on every machine and in every release, or a template would seem to have changed.
func TestMerge_is_golden_for_scripts(t *testing.T) {
	got := string(merge(t, "", "#!/bin/sh\necho x\n"))
	require.True(t, strings.HasPrefix(got, "#cloud-config\nwrite_files:\n  - path: /var/lib/drover/bootstrap/bootstrap.sh\n    owner: root:root\n"+
		"    permissions: \"0600\"\n    encoding: gz+b64\n    content: H4sI"), got)
	require.True(t, strings.HasSuffix(got, "\nruncmd:\n  - - /bin/sh\n    - /var/lib/drover/bootstrap/bootstrap.sh\n"), got)
	require.Equal(t, got, string(merge(t, " \n", "\r\n\t#!/bin/sh\necho x\n")), "blanks before the beginning do not count")
}

// Both write the same file: cloud-init writes in this order, so ours is what is there in the end, and both commands run.
func TestMerge_the_same_file_twice(t *testing.T) {
	const file = "#cloud-config\nwrite_files:\n- path: /etc/rancher/config.yaml\n  content: %s\n  permissions: '0%s'\n"
	got := decode(t, merge(t, fmt.Sprintf(file, "user", "644"), fmt.Sprintf(file, "ours", "600")))
	require.Len(t, got.WriteFiles, 2)
	for i, want := range []string{"user 0644", "ours 0600"} {
		require.Equal(t, "/etc/rancher/config.yaml", got.WriteFiles[i].Path)
		require.Equal(t, want, got.WriteFiles[i].Content+" "+got.WriteFiles[i].Permissions)
	}
	user, boot := merge(t, "", "#!/bin/sh\nfirst\n"), "#!/bin/sh\nsecond\n"
	again := decode(t, merge(t, string(user), boot))
	require.Len(t, again.RunCmd, 2, "even what was merged before by us")
	require.Equal(t, again.WriteFiles[0].Path, again.WriteFiles[1].Path)
}
