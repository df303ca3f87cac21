package userdata_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/userdata"
)

// bombs are cloud-configs of a few kilobytes, zipped, that cost whoever parses them without counting first hundreds of megabytes.
func bombs() map[string]string {
	list := func(item string) string {
		return "#cloud-config\na: [" + strings.Repeat(item, (userdata.MaxBytes-100)/len(item)) + "]\n"
	}
	text := "#cloud-config\na: &a " + strings.Repeat("x", 200_000) + "\n"
	return map[string]string{
		"items":                   list("a,"),
		"items with blanks":       list("a: 1, "),
		"mappings":                list("{"),
		"lists in lists":          list("["),
		"lines":                   "#cloud-config\na:\n" + strings.Repeat("- \n", userdata.MaxBytes/3-10),
		"keys":                    "#cloud-config\n" + strings.Repeat("a:\n", userdata.MaxBytes/3-10),
		"aliases of a long text":  text + "b: [" + strings.Repeat("*a,", 9_000) + "]\n",
		"aliases of aliases":      "#cloud-config\n" + laughs(),
		"aliases under a comment": strings.Replace(text, "a: &a ", "a: &a # ", 1) + "  b\nb: [" + strings.Repeat("*a,", 9_000) + "]\n",
	}
}

// allocated is what a call allocates in all, whatever of it is collected meanwhile.
func allocated(call func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestCheck_of_bombs: the manager looks at what anybody may write, for every machine and again after each restart.
func TestCheck_of_bombs(t *testing.T) {
	for name, bomb := range bombs() {
		small := zipped(t, bomb)
		require.Less(t, len(small), 32<<10, name)
		cost := allocated(func() {
			require.NoError(t, userdata.Check("any-plugin", userdata.Input{Bootstrap: small, User: small}), name)
		})
		require.Less(t, cost, uint64(1<<20), name)
	}
}

// TestMerge_of_bombs: the Job's pod has 768 MiB.
func TestMerge_of_bombs(t *testing.T) {
	for name, bomb := range bombs() {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			cost := allocated(func() {
				_, err := userdata.Merge(userdata.Input{Bootstrap: zipped(t, bomb)})
				require.EqualError(t, err, "reading the bootstrap data: its YAML is too large or too deep")
			})
			require.Less(t, cost, uint64(200<<20))
			require.Less(t, time.Since(start), 30*time.Second)
		})
	}
}

// The most that is let through to the YAML library, in forms that it is slow with.
func TestMerge_at_its_bounds(t *testing.T) {
	for name, text := range map[string]string{
		"marks":         "a: [" + strings.Repeat("a,", 249_000) + "]\n",
		"marks and map": "a: {" + strings.Repeat("a,", 124_000) + "}\n",
		"depth":         "a: " + strings.Repeat("[", 9_000) + strings.Repeat("a,", 200_000) + strings.Repeat("]", 9_000) + "\n",
		"comments":      strings.Repeat("#\n", 2<<20-100) + "a: 1\n",
		"comments, map": strings.Repeat("a: 1 #\n", 200_000),
		"a long text":   "a: |\n" + strings.Repeat("  x\n", 1<<20-100),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			cost := allocated(func() { _, _ = userdata.Merge(userdata.Input{Bootstrap: []byte("#cloud-config\n" + text)}) })
			t.Log(cost>>20, "MiB", time.Since(start))
			require.Less(t, cost, uint64(600<<20))
			require.Less(t, time.Since(start), 30*time.Second)
		})
	}
}

// What Check refuses UserData refuses too, and in the same words where it knows as much.
func TestCheck(t *testing.T) {
	words := func(n int) string { return "#cloud-config\nx: " + strings.Repeat("word ", n) + "\n" }
	for name, c := range map[string]struct{ driver, user, boot, err string }{
		"nothing":                     {driver: "digitalocean"},
		"a script that packs well":    {driver: "digitalocean", boot: "#!/bin/sh\n" + strings.Repeat("echo x\n", 20_000)},
		"a script that does not":      {driver: "digitalocean", boot: "#!/bin/sh\n" + string(noise(100_000)), err: "driver digitalocean takes at most 65536"},
		"blanks do not count":         {driver: "digitalocean", boot: "#cloud-config\nx:" + strings.Repeat(" ", 70_000) + "y\n"},
		"letters do":                  {driver: "digitalocean", boot: words(20_000), err: "driver digitalocean takes at most 65536"},
		"one may replace the other":   {driver: "digitalocean", user: words(9_000), boot: words(9_000)},
		"what the cloud takes zipped": {driver: "amazonec2", boot: words(20_000)},
		"opaque with a script":        {driver: "digitalocean", user: "{}", boot: "#!/bin/sh\n", err: "the user's own user data is neither a script"},
		"opaque alone":                {driver: "digitalocean", user: "{}"},
		"broken gzip":                 {driver: "any-plugin", boot: "\x1f\x8b\x08", err: "reading the bootstrap data: unzipping: unexpected EOF"},
		"a gzip bomb":                 {driver: "any-plugin", boot: string(zipped(t, strings.Repeat("x", 40<<20))), err: "reading the bootstrap data: the data is larger than 4194304 bytes"},
		"no YAML is the Job's affair": {driver: "any-plugin", boot: "#cloud-config\na: ["},
	} {
		t.Run(name, func(t *testing.T) {
			err := userdata.Check(c.driver, userdata.Input{User: []byte(c.user), Bootstrap: []byte(c.boot)})
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
			_, err = userdata.UserData(c.driver, userdata.Input{User: []byte(c.user), Bootstrap: []byte(c.boot)})
			require.Error(t, err)
		})
	}
}

func TestSummary_IsUnexplained(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "#!/bin/sh\n": false, "#cloud-config\n": false, "## template: jinja\n#cloud-config\n": false,
		`{"ignition": {}}`: false, "#include\nhttps://x\n": false, "version: v1alpha1\nmachine:\n": false, "<powershell>\n": false,
		"# cloud-config\nruncmd: [x]\n": true, "runcmd: [x]\n": true, "apt-get update\n": true, "hello": true,
	} {
		summary, err := userdata.Inspect(zipped(t, text))
		require.NoError(t, err)
		require.Equal(t, want, summary.IsUnexplained(), text)
		require.Equal(t, len(text), summary.Bytes)
	}
}

// What is not ASCII travels as base64, for cloud-init 22.4 decodes everything else in a multi-part message wrongly.
func TestMerge_multi_part_is_ASCII(t *testing.T) {
	const template = "## template: jinja\n#cloud-config\nruncmd: ['echo {{ v1.region }} größe 🚀']\n"
	given := "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/cloud-config; charset=\"utf-8\"\nContent-Transfer-Encoding: 8bit\n\n" +
		"#cloud-config\nruncmd: [größe]\n--b--\n"
	for name, input := range map[string]userdata.Input{
		"a template":        {Bootstrap: []byte(template), Hostname: "pool-1"},
		"with a config":     {User: []byte("#cloud-config\nfinal_message: Grüße\n"), Bootstrap: []byte(template)},
		"with a script":     {User: []byte("#!/bin/sh\necho Grüße\n"), Bootstrap: []byte(template)},
		"parts that others": {User: []byte(given)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := userdata.Merge(input)
			require.NoError(t, err)
			for _, b := range got {
				require.Less(t, b, byte(0x80), "%s", got)
			}
			require.Contains(t, string(got), "Content-Transfer-Encoding: base64")
			for line := range strings.Lines(string(got)) {
				require.LessOrEqual(t, len(line), 200)
			}
		})
	}
	nested := fmt.Sprintf("Content-Type: multipart/mixed; boundary=a\n\n--a\n%s--a--\n", given)
	_, err := userdata.Merge(userdata.Input{User: []byte(nested)})
	require.EqualError(t, err, "merging user data: a MIME part of type multipart/mixed has text in it that is not ASCII: encode its own parts as base64")
}
