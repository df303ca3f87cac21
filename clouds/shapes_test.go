package clouds_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/state"
)

// TestServer_shapes reads testdata/servers.txt: a driver, the fields of its record, and what is read from them.
func TestServer_shapes(t *testing.T) {
	const base = `"MachineName":"m1","SSHUser":"root","SSHPort":22,"SSHKeyPath":"/x/machines/m1/id_rsa","StorePath":"/x","SwarmMaster":false,` +
		`"SwarmHost":"","SwarmDiscovery":"","EngineInstallURL":"",`
	for _, line := range table(t, "servers.txt", 5) {
		t.Run(line[0], func(t *testing.T) {
			got := clouds.Of(line[0]).Server(clouds.Facts{Record: record(t, "{"+base+`"IPAddress":"198.18.0.9",`+line[1]+"}"), Hostname: "m1"})
			require.Equal(t, line[2:], []string{cmp.Or(got.InstanceID, "-"), cmp.Or(got.ProviderID, "-"), cmp.Or(got.FailureDomain, "-")})
			require.Equal(t, []state.Address{
				{Type: "ExternalIP", Address: "198.18.0.9"}, {Type: "InternalIP", Address: "198.18.0.9"}, {Type: "Hostname", Address: "m1"},
			}, got.Addresses)
		})
	}
}

// TestUnfill reads from each provider ID what it was made of.
func TestUnfill(t *testing.T) {
	require.Equal(t, clouds.Record{"DropletID": "12"}, clouds.Unfill("digitalocean://{DropletID}", "digitalocean://12"))
	require.Equal(t, clouds.Record{"Region": "r", "ID": "i.1"}, clouds.Unfill("x://{Region}/{ID}", "x://r/i.1"))
	for template, text := range map[string]string{"": "", "x://": "x://", "x://{ID}": "y://1", "openstack:///{ID}": "openstack://region/1", "x.{ID}": "xx1"} {
		require.Nil(t, clouds.Unfill(template, text), template)
	}
}

// TestServer_before_there_is_one: no record of a driver that goes by an id may give a provider ID before the id is there.
func TestServer_before_there_is_one(t *testing.T) {
	const all = `"MachineName":"m1","Region":"r","Zone":"z","AvailabilityZone":"a","Location":"l","Project":"p"`
	for _, p := range clouds.All() {
		if p.ID == "" {
			continue
		}
		for _, none := range []string{`""`, `0`, `null`, `-1`, `1.5`, `{}`, `[1]`, `true`, `"a b"`, `"00000000-0000-0000-0000-000000000000"`, `"ü"`} {
			r := record(t, fmt.Sprintf(`{%s,%q:%s}`, all, p.ID, none))
			require.Empty(t, p.ServerID(r), "%s: %s", p.Driver, none)
			require.Empty(t, p.Server(clouds.Facts{Record: r}).ProviderID, "%s: %s", p.Driver, none)
		}
	}
}

func TestServer_amazon_zones(t *testing.T) {
	for name, c := range map[string]struct{ record, want string }{
		"a letter":               {`{"InstanceId":"i-1","Region":"eu-west-1","Zone":"b"}`, "eu-west-1b"},
		"the whole zone":         {`{"InstanceId":"i-1","Region":"eu-west-1","Zone":"eu-west-1b"}`, "eu-west-1b"},
		"a cloud of another's":   {`{"InstanceId":"i-1","Region":"r1","Zone":"zone-7","Endpoint":"https://198.18.0.1"}`, "zone-7"},
		"no zone, no providerID": {`{"InstanceId":"i-1","Region":"eu-west-1"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := clouds.Of("amazonec2").Server(clouds.Facts{Record: record(t, c.record)})
			require.Equal(t, c.want, got.FailureDomain)
			require.Equal(t, c.want != "", got.ProviderID == "aws:///"+c.want+"/i-1")
			require.Equal(t, "i-1", got.InstanceID)
		})
	}
}

func TestServer_which_provider_ID(t *testing.T) {
	r := record(t, `{"DropletID":1,"Region":"Fra1"}`)
	for name, c := range map[string]struct{ given, template, want string }{
		"the profile's":                        {want: "digitalocean://1"},
		"a template goes before the profile":   {template: "x://{region}/{DropletID}", want: "x://fra1/1"},
		"the user's goes before everything":    {given: "mine://7", template: "x://{DropletID}", want: "mine://7"},
		"a template that cannot be filled yet": {template: "x://{Missing}", want: "digitalocean://1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := clouds.Of("digitalocean").Server(clouds.Facts{Record: r, ProviderID: c.given, Template: c.template})
			require.Equal(t, c.want, got.ProviderID)
		})
	}
}

func TestServer_addresses(t *testing.T) {
	for name, c := range map[string]struct {
		record, host string
		resolved     []netip.Addr
		want         []string
	}{
		"private only":       {record: `{"IPAddress":"10.1.2.3"}`, want: []string{"InternalIP 10.1.2.3"}},
		"carrier-grade NAT":  {record: `{"IPAddress":"100.64.0.1"}`, want: []string{"InternalIP 100.64.0.1"}},
		"unique local IPv6":  {record: `{"IPAddress":"fd00::1"}`, want: []string{"InternalIP fd00::1"}},
		"IPv6 in brackets":   {record: `{"IPAddress":"[2001:db8::1]"}`, want: []string{"ExternalIP 2001:db8::1", "InternalIP 2001:db8::1"}},
		"the host besides":   {record: `{"IPAddress":"10.0.0.1"}`, host: "198.18.0.1", want: []string{"InternalIP 10.0.0.1", "ExternalIP 198.18.0.1"}},
		"the same one twice": {record: `{"IPAddress":"198.18.0.1"}`, host: "198.18.0.1", want: []string{"ExternalIP 198.18.0.1", "InternalIP 198.18.0.1"}},
		"a name":             {record: `{"IPAddress":"m.example.com"}`, want: []string{"ExternalDNS m.example.com"}},
		"a name of a public address": {record: `{"IPAddress":"m.example.com"}`, host: "m.example.com", resolved: addrs("203.0.113.7", "2001:db8::7"),
			want: []string{"ExternalDNS m.example.com", "ExternalIP 203.0.113.7", "ExternalIP 2001:db8::7", "InternalIP 203.0.113.7"}},
		"a name behind NAT": {record: `{"IPAddress":"m.example.com"}`, host: "m.example.com", resolved: addrs("192.168.1.7", "203.0.113.7"),
			want: []string{"ExternalDNS m.example.com", "InternalIP 192.168.1.7", "ExternalIP 203.0.113.7"}},
		"a name without a dot":      {record: `{"IPAddress":"node-1"}`, host: "node-1", resolved: addrs("10.0.0.7"), want: []string{"InternalIP 10.0.0.7"}},
		"a name of this server":     {record: `{"IPAddress":"m.example.com"}`, host: "m.example.com", resolved: addrs("127.0.0.1"), want: []string{"ExternalDNS m.example.com"}},
		"a public field":            {record: `{"PublicIP":"198.18.0.1","PrivateIPAddress":"10.0.0.1"}`, want: []string{"ExternalIP 198.18.0.1", "InternalIP 10.0.0.1"}},
		"nothing to reach it under": {record: `{"IPAddress":"127.0.0.1","PublicIP":"0.0.0.0","IPv6Address":"::1"}`, host: "224.0.0.1"},
		"all at once":               {record: `{"IPAddress":"255.255.255.255","PublicIP":"::ffff:127.0.0.1"}`},
		"no address at all":         {record: `{"IPAddress":"http://a.b/c","PublicIP":"user@a.b","PrivateIPAddress":"localhost"}`},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, a := range clouds.Of("acme").Server(clouds.Facts{Record: record(t, c.record), SSHHost: c.host, HostAddresses: c.resolved}).Addresses {
				got = append(got, a.Type+" "+a.Address)
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestServer_login(t *testing.T) {
	got := clouds.Of("acme").Server(clouds.Facts{Record: clouds.Record{}, SSHHost: "198.18.0.1", SSHUser: "core", SSHPort: 2022})
	require.Equal(t, []any{"198.18.0.1", "core", 2022}, []any{got.SSHHost, got.SSHUser, got.SSHPort})
	got = clouds.Of("acme").Server(clouds.Facts{Record: clouds.Record{}, SSHHost: "h\nx", SSHUser: "a b", SSHPort: 65536})
	require.Equal(t, []any{"", "", 0}, []any{got.SSHHost, got.SSHUser, got.SSHPort}, "what is no host, user or port is left out")
}

func TestDecodeRecord(t *testing.T) {
	for _, bad := range []string{"", "null", "[]", `"MARKER"`, "1", "{MARKER", `{"a":}`} {
		_, err := clouds.DecodeRecord([]byte(bad))
		require.ErrorContains(t, err, "no JSON object", bad)
		require.NotContains(t, err.Error(), "MARKER")
	}
	_, err := clouds.DecodeRecord([]byte(`{"a":"` + strings.Repeat("x", 512<<10) + `"}`))
	require.ErrorContains(t, err, "at most 524288 are accepted")
	require.Equal(t, "9007199254740993", record(t, `{"ID":9007199254740993}`).Text("ID"), "an id is no floating-point number")
	require.Empty(t, record(t, `{"ID":"`+strings.Repeat("x", 513)+`"}`).Text("ID"))
}

func TestFill(t *testing.T) {
	r := record(t, `{"ID":7,"Name":"One","lower":"Kept","Odd":"a{b}"}`)
	for template, want := range map[string]string{
		"x://{ID}": "x://7", "x://{Name}/{name}": "x://One/one", "{lower}": "Kept", "plain": "plain", "": "",
		"x://{ID": "", "x://{}": "", "x://{None}": "", "x://{ID}/{None}": "", "x y{ID}": "", "ü{ID}": "", "{Odd}": "a{b}", "}{ID}": "}7",
		strings.Repeat("x", 512) + "{ID}": "",
	} {
		require.Equal(t, want, clouds.Fill(template, r), template)
	}
}

// TestItems_fit_the_cloud: whatever a tag is, what is sent has only characters and lengths that the cloud takes.
func TestItems_fit_the_cloud(t *testing.T) {
	hostile := map[string]string{"a,b=c": "d,e=f:g\n\"", strings.Repeat("K", 700): strings.Repeat("ü", 700), "": ""}
	for _, c := range clouds.All() {
		driver, f := c.Driver, c.Tags
		if f.Form == clouds.NoTags {
			continue
		}
		items := f.Items(hostile)
		require.Equal(t, items, f.Items(hostile), "the order is fixed")
		for _, item := range items {
			require.NotContains(t, item, ",", driver)
			require.False(t, strings.ContainsAny(item, "\n\"ü"), driver)
			require.LessOrEqual(t, len(item), f.MaxKey+f.MaxValue+1, driver)
			if f.Lower {
				require.Equal(t, strings.ToLower(item), item)
			}
		}
		want := len(hostile)
		if f.Form == clouds.Pairs {
			want *= 2
		}
		require.Len(t, items, want, driver)
	}
	require.Empty(t, clouds.Of("generic").Tags.Items(hostile))
	require.Equal(t, "a,b", clouds.Of("generic").Tags.AddTags("a,b", hostile))
	require.Equal(t, []string{"a=b"}, clouds.Of("hetzner").Tags.AddTags(nil, map[string]string{"a": "b"}))
}

// TestClassify_by_status: what a cloud means whose words nobody knows.
func TestClassify_by_status(t *testing.T) {
	for status, want := range map[int]string{
		400: rkev1.ClassInvalid, 401: rkev1.ClassUnauthorized, 402: rkev1.ClassQuota, 403: rkev1.ClassUnauthorized, 404: rkev1.ClassInvalid,
		408: rkev1.ClassTransient, 409: rkev1.ClassTransient, 422: rkev1.ClassInvalid, 423: rkev1.ClassTransient, 425: rkev1.ClassTransient,
		429: rkev1.ClassThrottled, 500: rkev1.ClassTransient, 502: rkev1.ClassTransient, 599: rkev1.ClassTransient,
	} {
		for _, form := range []string{"POST https://x/y: %d (request", "Error %d: x", "StatusCode=%d", "status code: %d", "got %d instead", "HTTP/1.1 %d", "%d"} {
			text := fmt.Sprintf(form, status)
			require.Equal(t, want, clouds.Of("acme").Classify(text), text)
		}
	}
	for _, text := range []string{"", "server 4041", "waited 500ms", "id-403", "port 4430", "200"} {
		require.Equal(t, rkev1.ClassUnknown, clouds.Of("acme").Classify(text), text)
	}
	require.Equal(t, rkev1.ClassQuota, clouds.Of("digitalocean").Classify("422: THIS WILL EXCEED YOUR DROPLET LIMIT"), "words go before the status")
}

func addrs(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}
