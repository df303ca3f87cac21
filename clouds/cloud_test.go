package clouds_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit/golden"
)

func record(tb testing.TB, text string) clouds.Record {
	tb.Helper()
	r, err := clouds.DecodeRecord([]byte(text))
	require.NoError(tb, err)
	return r
}

func TestServer(t *testing.T) {
	cases := []struct {
		name, driver, record, template string
		want                           state.Server
	}{
		{name: "digitalocean before the droplet", driver: "digitalocean", record: `{"DropletID":0,"Region":"nyc3"}`,
			want: state.Server{FailureDomain: "nyc3", Addresses: []state.Address{{Type: "Hostname", Address: "m1"}}}},
		{name: "digitalocean with private network", driver: "digitalocean",
			record: `{"DropletID":1,"IPAddress":"198.18.0.9","PrivateIPAddress":"10.0.0.2","IPv6Address":"2001:db8::1"}`,
			want: state.Server{InstanceID: "1", ProviderID: "digitalocean://1", Addresses: []state.Address{
				{Type: "ExternalIP", Address: "198.18.0.9"}, {Type: "InternalIP", Address: "10.0.0.2"},
				{Type: "ExternalIP", Address: "2001:db8::1"}, {Type: "Hostname", Address: "m1"}}}},
		{name: "exoscale without a server", driver: "exoscale", record: `{"Id":"00000000-0000-0000-0000-000000000000"}`,
			want: state.Server{Addresses: []state.Address{{Type: "Hostname", Address: "m1"}}}},
		{name: "external with template", driver: "acme", template: "acme://{Region}/{ServerUUID}", record: `{"ServerUUID":"u-1","Region":"x","IPAddress":"a.example.com"}`,
			want: state.Server{ProviderID: "acme://x/u-1", Addresses: []state.Address{{Type: "ExternalDNS", Address: "a.example.com"}, {Type: "Hostname", Address: "m1"}}}},
		{name: "external without template", driver: "acme", record: `{"ServerUUID":"u-1"}`,
			want: state.Server{Addresses: []state.Address{{Type: "Hostname", Address: "m1"}}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := clouds.Of(c.driver).Server(clouds.Facts{Record: record(t, c.record), Hostname: "m1", Template: c.template})
			require.Equal(t, c.want, got)
		})
	}
}

// TestProfiles_name_flags_that_exist keeps the table in step with the drivers that are linked.
func TestProfiles_name_flags_that_exist(t *testing.T) {
	for _, name := range driver.BuiltinNames() {
		flags, ok := driver.Builtin(name)
		require.True(t, ok)
		types := map[string]crdgen.FlagType{}
		for _, flag := range flags {
			types[flag.Name] = flag.Type
		}
		p := clouds.Of(name)
		if p.Tags.Form == clouds.List {
			require.Equal(t, crdgen.StringSlice, types[p.Tags.Flag], "%s: %s", name, p.Tags.Flag)
			types[p.Tags.Flag] = crdgen.String
		}
		for _, flag := range append([]string{p.Tags.Flag, p.KeyFile, p.NeedsKey}, p.KeyUnless...) {
			if flag != "" {
				require.Equal(t, crdgen.String, types[flag], "%s: %s", name, flag)
			}
		}
	}
}

// A tag of another machine's would have its server found and removed with this one's.
func TestOurs(t *testing.T) {
	tags := map[string]string{"drover-machine-uid": "u", "drover-machine": "m"}
	for driver, forged := range map[string]any{
		"digitalocean": "a,drover-machine-uid:v", "amazonec2": "drover-machine,b-c", "hetzner": []string{"a=b", "drover-machine=b-c"}, "google": "x, DROVER-machine",
	} {
		require.NotEmpty(t, clouds.Of(driver).Tags.Ours(forged, tags), driver)
	}
	for driver, given := range map[string]any{"digitalocean": "a,drover-machines:v,team:drover-machine", "hetzner": []string{"a=drover-machine"}, "amazonec2": "", "google": nil} {
		require.Empty(t, clouds.Of(driver).Tags.Ours(given, tags), driver)
	}
}

func TestAddTags(t *testing.T) {
	tags := map[string]string{"drover-machine-uid": "3F/b", "drover-cluster": "c1"}
	require.Equal(t, "drover-cluster:c1,drover-machine-uid:3F-b,mine", clouds.Of("digitalocean").Tags.AddTags("mine", tags))
	require.Equal(t, "drover-cluster,c1,drover-machine-uid,3F/b,kubernetes.io/cluster/c1,owned,odd", clouds.Of("amazonec2").Tags.AddTags("odd", tags))
	require.Equal(t, "drover-cluster,c1,drover-machine-uid,3F/b,kubernetes.io/cluster/mine,shared",
		clouds.Of("amazonec2").Tags.AddTags("kubernetes.io/cluster/mine,shared", tags), "the user's own")
	require.Equal(t, "drover-machine-uid,x", clouds.Of("amazonec2").Tags.AddTags(nil, map[string]string{"drover-machine-uid": "x"}), "no cluster")
	require.Equal(t, "drover-cluster,c1,drover-machine-uid,3f-b", clouds.Of("google").Tags.AddTags("", tags))
	require.Equal(t, []string{"drover-cluster=c1", "drover-machine-uid=3F-b", "a=b"}, clouds.Of("hetzner").Tags.AddTags([]string{"a=b"}, tags))
	long := clouds.Of("digitalocean").Tags.Items(map[string]string{"k": strings.Repeat("v", 400)})
	require.Len(t, long[0], 255)
}

// TestClassify reads testdata/errors.txt: a class, a driver, and the driver's own words.
func TestClassify(t *testing.T) {
	for _, line := range table(t, "errors.txt", 3) {
		require.Equal(t, line[0], clouds.Of(line[1]).Classify(line[2]), line[2])
	}
}

// table reads a file of testdata: a line for each fact, its columns between bars, without what follows a # at the beginning of a line.
func table(t *testing.T, file string, columns int) [][]string {
	t.Helper()
	content, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	var out [][]string
	for line := range strings.Lines(string(content)) {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.SplitN(line, " | ", columns)
		require.Len(t, parts, columns, line)
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		out = append(out, parts)
	}
	require.NotEmpty(t, out, file)
	return out
}

func FuzzServer(f *testing.F) {
	f.Add("digitalocean", []byte(`{"DropletID":1,"IPAddress":"1.2.3.4"}`), "x://{DropletID}", "host", "name")
	f.Add("acme", []byte(`{"A":{"B":1}}`), "{", "::1", "")
	f.Add("acme", []byte(`{}`), "", "2001:db8::1%"+strings.Repeat("z", 300), "name")
	f.Add("acme", []byte(`{}`), "", strings.Repeat("h.", 200), strings.Repeat("n", 300))
	f.Fuzz(func(t *testing.T, name string, raw []byte, template, host, instance string) {
		r, err := clouds.DecodeRecord(raw)
		if err != nil {
			return
		}
		server := clouds.Of(name).Server(clouds.Facts{Record: r, Template: template, SSHHost: host, Hostname: instance})
		encoded, err := json.Marshal(server)
		require.NoError(t, err)
		read, err := state.ReadServer(map[string][]byte{state.ServerKey: encoded})
		require.NoError(t, err, "the manager accepts what is written")
		require.Equal(t, server.ProviderID, read.ProviderID)
		require.Equal(t, server.Addresses, read.Addresses)
	})
}

// TestDriversPage: the table, the leftovers and what stands beside a server in docs/drivers.md are what is known here.
func TestDriversPage(t *testing.T) {
	const path = "../docs/drivers.md"
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	table := "| driver | finds a lost server by | tags with | user data | SSH key | providerID |\n|---|---|---|---|---|---|\n"
	var beside strings.Builder
	for _, c := range clouds.All() {
		table += row(c) + "\n"
		if c.Beside != "" {
			fmt.Fprintf(&beside, "- %s: %s\n", c.Driver, c.Beside)
		}
		if c.Leftovers != "" {
			require.Contains(t, string(page), fmt.Sprintf("- %s, leftovers: %s\n", c.Driver, c.Leftovers))
		}
	}
	want := within(t, within(t, string(page), "drivers", table), "beside", beside.String())
	golden.Require(t, path, want)
}

// within is a page with another text between two marks.
func within(t *testing.T, page, mark, text string) string {
	t.Helper()
	before, rest, ok := strings.Cut(page, "<!-- "+mark+" -->\n")
	_, after, end := strings.Cut(rest, "<!-- end of "+mark+" -->\n")
	require.True(t, ok && end, mark)
	return before + "<!-- " + mark + " -->\n" + text + "<!-- end of " + mark + " -->\n" + after
}

func row(c clouds.Cloud) string {
	or := func(text, quote string) string {
		if text == "" {
			return "–"
		}
		return quote + text + quote
	}
	lost, key, data := string(c.Finder.Kind), "RSA, the driver's", "over SSH"
	switch {
	case c.NoServer:
		lost = "makes no server"
	case lost == "" && c.ByName:
		lost = "name"
	}
	switch {
	case c.NeedsKey != "":
		key = "the user's"
	case c.NoServer:
		key, data = "–", "–"
	case c.KeyFile != "", c.KeyInPlace:
		key = "ed25519, ours"
	}
	if c.UserData.Habit != clouds.None {
		data = string(c.UserData.Habit) + ": " + c.UserData.Flag
	}
	return "| " + strings.Join([]string{c.Driver, or(lost, ""), or(c.Tags.Flag, ""), data, key, or(c.ProviderID, "`")}, " | ") + " |"
}

func TestEnvPrefix(t *testing.T) {
	for driver, want := range map[string]string{"amazonec2": "AWS", "openstack": "OS", "rackspace": "OS", "vmwarevsphere": "VSPHERE",
		"vmwarefusion": "FUSION", "vmwarevcloudair": "VCLOUDAIR", "digitalocean": "DIGITALOCEAN", "my-cloud": "MY_CLOUD"} {
		require.Equal(t, want, clouds.Of(driver).EnvPrefix)
	}
}

// The flags of failure domains are the drivers' own, and what a server's failure domain says can be asked for.
func TestZoneValue(t *testing.T) {
	for _, name := range driver.BuiltinNames() {
		flags, _ := driver.Builtin(name)
		known := map[string]bool{"": true}
		for _, flag := range flags {
			known[flag.Name] = true
		}
		c := clouds.Of(name)
		require.True(t, known[c.ZoneFlag] && known[c.ZonePrefix], name)
	}
	ohio := map[string]any{"amazonec2-region": "us-east-2"}
	for _, c := range []struct {
		driver, domain string
		values         map[string]any
		want, err      string
	}{
		{"amazonec2", "us-east-2b", ohio, "b", ""},
		{"amazonec2", "us-east-2-lax-1a", ohio, "-lax-1a", ""},
		{"amazonec2", "c", ohio, "c", ""},
		{"amazonec2", "eu-west-1a", ohio, "", `failure domain "eu-west-1a" is not a zone of amazonec2-region "us-east-2"`},
		{"amazonec2", "us-east-2", ohio, "", "is not a zone"},
		{"google", "us-central1-a", nil, "us-central1-a", ""},
		{"azure", "1", nil, "1", ""},
	} {
		got, err := clouds.Of(c.driver).ZoneValue(c.domain, c.values)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}
