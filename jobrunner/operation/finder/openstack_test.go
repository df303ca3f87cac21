package finder

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
)

const openStackPassword = "MARKER-password"

// novaCloud is a project in the shapes of the Identity API v3 and the Compute API v2.1: tokens with a catalog, servers/detail
// with its name for a regular expression and servers_links, os-keypairs. Its pages have one server, and an empty one on the way.
type novaCloud struct {
	*testing.T
	servers  []map[string]any
	keyPairs map[string]string
	refuse   map[string]refusal
	endless  bool
	region   string

	lists   []url.Values
	deleted []string
	address string
}

func novaServer(id, name, keyPair, status string) map[string]any {
	return map[string]any{
		"id": id, "name": name, "status": status, "key_name": keyPair, "tenant_id": "p1", "user_id": "u1", "metadata": map[string]string{},
		"created": "2026-11-01T10:00:00Z", "updated": "2026-11-01T10:00:00Z", "hostId": "", "addresses": map[string]any{}, "links": []any{},
		"flavor": map[string]any{"id": "1"}, "image": map[string]any{"id": "2"},
	}
}

func (n *novaCloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	for part, refused := range n.refuse {
		if strings.HasPrefix(r.Method+" "+r.URL.Path, part) {
			if strings.HasPrefix(refused.body, "<") {
				w.Header().Set("Content-Type", "text/html")
			}
			w.WriteHeader(refused.status)
			_, _ = fmt.Fprint(w, refused.body)
			return
		}
	}
	if r.URL.Path == "/v3/auth/tokens" {
		n.login(w, r)
		return
	}
	if r.Header.Get("X-Auth-Token") != "gAAAA-token" {
		n.Errorf("no token in %s %s", r.Method, r.URL)
	}
	name := strings.TrimPrefix(r.URL.Path, "/v2.1/os-keypairs/")
	_, known := n.keyPairs[name]
	switch {
	case r.URL.Path == "/v2.1/servers/detail":
		n.list(w, r)
	case r.URL.Path == "/v2.1/os-keypairs":
		pairs := []map[string]any{}
		for name, key := range n.keyPairs {
			pairs = append(pairs, map[string]any{"keypair": map[string]string{"name": name, "public_key": key, "fingerprint": "x"}})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keypairs": pairs})
	case known && r.Method == http.MethodGet:
		_ = json.NewEncoder(w).Encode(map[string]any{"keypair": map[string]string{"name": name, "public_key": n.keyPairs[name], "fingerprint": "x"}})
	case r.Method == http.MethodDelete && (known || n.delete(strings.TrimPrefix(r.URL.Path, "/v2.1/servers/"))):
		delete(n.keyPairs, name)
		w.WriteHeader(map[bool]int{true: http.StatusAccepted, false: http.StatusNoContent}[known])
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, `{"itemNotFound": {"code": 404, "message": "it could not be found."}}`)
	}
}

func (n *novaCloud) login(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Auth struct {
			Identity struct {
				Password struct {
					User struct{ Name, Password string }
				}
			}
			Scope struct{ Project struct{ Name string } }
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&asked)
	if user := asked.Auth.Identity.Password.User; user.Name != "drover" || user.Password != openStackPassword || asked.Auth.Scope.Project.Name != "p1" {
		n.Errorf("a login of no use: %+v", asked)
	}
	w.Header().Set("X-Subject-Token", "gAAAA-token")
	w.WriteHeader(http.StatusCreated)
	endpoints := []map[string]string{{"id": "1", "interface": "public", "region": "R1", "region_id": "R1", "url": n.address + "/v2.1"}}
	_ = json.NewEncoder(w).Encode(map[string]any{"token": map[string]any{"expires_at": "2099-01-01T00:00:00.000000Z",
		"catalog": []map[string]any{{"id": "1", "type": "compute", "name": "nova", "endpoints": endpoints}}}})
}

func (n *novaCloud) delete(id string) bool {
	before := len(n.servers)
	n.servers = slices.DeleteFunc(n.servers, func(server map[string]any) bool { return server["id"] == id })
	n.deleted = append(n.deleted, id)
	return len(n.servers) < before
}

func (n *novaCloud) list(w http.ResponseWriter, r *http.Request) {
	n.lists = append(n.lists, r.URL.Query())
	name, err := regexp.Compile(r.URL.Query().Get("name"))
	if err != nil {
		n.Errorf("no expression: %v", err)
		return
	}
	pages := []any{[]any{}}
	for _, server := range n.servers {
		if name.MatchString(server["name"].(string)) {
			pages = append(pages, []any{server})
		}
	}
	at, _ := strconv.Atoi(r.URL.Query().Get("marker"))
	answer := map[string]any{"servers": []any{}}
	if at < len(pages) {
		answer["servers"] = pages[at]
	}
	if at+1 < len(pages) || n.endless {
		answer["servers_links"] = []map[string]string{{"rel": "next", "href": n.address + "/v2.1/servers/detail?name=" + url.QueryEscape(r.URL.Query().Get("name")) + "&marker=" + strconv.Itoa(at+1)}}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (n *novaCloud) finder(set map[string]any) Finder {
	n.Helper()
	server := httptest.NewServer(n)
	n.Cleanup(server.Close)
	n.address = server.URL
	values := map[string]any{"openstack-auth-url": server.URL + "/v3", "openstack-username": "drover", "openstack-password": openStackPassword,
		"openstack-tenant-name": "p1", "openstack-domain-name": "Default", "openstack-region": "R1"}
	maps.Copy(values, set)
	return For(openStackName, defaults(n.T, openStackName, values))
}

func newNova(t *testing.T) *novaCloud {
	t.Helper()
	return &novaCloud{T: t, refuse: map[string]refusal{},
		keyPairs: map[string]string{"pool-1-aaaa": ourKey, "pool-1-bbbb": othersKey, "mine": ourKey, "pool-10-cccc": ourKey},
		servers: []map[string]any{
			novaServer("s-0", "pool-1", "pool-1-bbbb", "ACTIVE"), novaServer("s-1", "pool-1", "pool-1-aaaa", "ACTIVE"),
			novaServer("s-2", "pool-10", "pool-10-cccc", "ACTIVE"), novaServer("s-3", "a-pool-1", "pool-1-aaaa", "ACTIVE"),
			novaServer("s-4", "pool-1", "mine", "ACTIVE"), novaServer("s-5", "pool-1", "pool-1-aaaa", "DELETED"), novaServer("s-6", "pool-1", "", "ACTIVE"),
		}}
}

func TestOpenStack_Find(t *testing.T) {
	nova := newNova(t)
	found, err := nova.finder(nil).Find(t.Context(), lost("m-uid"))
	require.NoError(t, err)
	require.Equal(t, []Server{{ID: "s-1", Name: "pool-1", Record: map[string]any{"MachineId": "s-1", "KeyPairName": "pool-1-aaaa"}}}, plain(found),
		"of all the name's servers, on whatever page, the one with the machine's key")
	require.Equal(t, "^pool-1$", nova.lists[0].Get("name"))
	require.Equal(t, "200", nova.lists[0].Get("limit"))
	nova.servers = nil
	found, err = nova.finder(nil).Find(t.Context(), lost("m-uid"))
	require.NoError(t, err)
	require.Empty(t, found)
	_, err = nova.finder(nil).Find(t.Context(), Machine{InstanceName: "pool-1", PublicKey: []byte(ourKey)})
	require.ErrorIs(t, err, errNoTag)
}

// Whose server it is must be proven; whoever cannot be told is for a person to decide, once a server was asked for.
func TestOpenStack_Find_whoseItIs(t *testing.T) {
	noKey := Machine{InstanceName: "pool-1", Tags: machineTags("m-uid"), Lost: true}
	recorded := noKey
	recorded.Record = map[string]any{"MachineId": "s-0"}
	for name, c := range map[string]struct {
		machine   Machine
		set       map[string]any
		change    func(*novaCloud)
		want      []string
		uncertain string
	}{
		"the key is lost":                     {machine: noKey, uncertain: "the machine's SSH key is lost"},
		"the key is lost, and no namesake":    {machine: noKey, change: func(n *novaCloud) { n.servers = n.servers[2:4] }},
		"the record names it":                 {machine: recorded, change: func(n *novaCloud) { n.servers = n.servers[:1] }, want: []string{"s-0"}},
		"the key pair is another user's":      {machine: lost("m"), change: func(n *novaCloud) { delete(n.keyPairs, "pool-1-aaaa") }, uncertain: "no key pair pool-1-aaaa"},
		"the user's key pair":                 {machine: lost("m"), set: map[string]any{"openstack-keypair-name": "mine", "openstack-private-key-file": "/k"}, uncertain: "does not belong to one machine"},
		"the user's key pair, on none of him": {machine: lost("m"), set: map[string]any{"openstack-keypair-name": "other", "openstack-private-key-file": "/k"}},
	} {
		t.Run(name, func(t *testing.T) {
			nova := newNova(t)
			if c.change != nil {
				c.change(nova)
			}
			found, err := nova.finder(c.set).Find(t.Context(), c.machine)
			if c.uncertain == "" {
				require.NoError(t, err)
				require.Equal(t, append([]string{}, c.want...), ids(found))
				return
			}
			require.ErrorIs(t, err, ErrUncertain)
			require.ErrorContains(t, err, c.uncertain)
			require.ErrorContains(t, err, "there is server s-")
			c.machine.Lost = false
			_, err = nova.finder(c.set).Find(t.Context(), c.machine)
			require.NoError(t, err, "a namesake is nobody's concern before a server was asked for")
		})
	}
}

func TestOpenStack_Find_unfinished(t *testing.T) {
	for name, c := range map[string]struct {
		status string
		set    map[string]any
		want   bool
	}{
		"ready": {status: "ACTIVE"}, "being made": {status: "BUILD"}, "failed": {status: "ERROR", want: true},
		"with a floating address to come": {status: "ACTIVE", set: map[string]any{"openstack-floatingip-pool": "public"}, want: true},
		"with a volume to come":           {status: "ACTIVE", set: map[string]any{"openstack-volume-size": 10}, want: true},
		"with a volume that is there":     {status: "ACTIVE", set: map[string]any{"openstack-volume-id": "v", "openstack-boot-from-volume": true}},
	} {
		t.Run(name, func(t *testing.T) {
			nova := newNova(t)
			nova.servers = []map[string]any{novaServer("s-1", "pool-1", "pool-1-aaaa", c.status)}
			found, err := nova.finder(c.set).Find(t.Context(), sought("m-uid"))
			require.NoError(t, err)
			require.Len(t, found, 1)
			require.Equal(t, c.want, found[0].Unfinished)
		})
	}
}

func TestOpenStack_isWholeOrFails(t *testing.T) {
	list, pair, login := "GET /v2.1/servers", "GET /v2.1/os-keypairs/", "POST /v3"
	for name, c := range map[string]struct {
		at string
		refusal
		class string
	}{
		"throttled":            {list, refusal{429, `{"overLimit": {"code": 429, "message": "This request was rate-limited."}}`}, rkev1.ClassThrottled},
		"not allowed":          {list, refusal{403, `{"forbidden": {"code": 403, "message": "Policy doesn't allow os_compute_api:servers:detail to be performed."}}`}, rkev1.ClassUnauthorized},
		"an accident":          {list, refusal{503, `{"message": "The service is currently unable to handle the request"}`}, rkev1.ClassTransient},
		"a wrong password":     {login, refusal{401, `{"error":{"code":401,"message":"The request you have made requires authentication.","title":"Unauthorized"}}`}, rkev1.ClassUnauthorized},
		"a proxy's page":       {list, refusal{200, "<html>Please log in</html>"}, ""},
		"a proxy's page login": {login, refusal{201, "<html>Please log in</html>"}, ""},
		"nothing in it":        {list, refusal{200, "{}"}, ""},
		"another list":         {list, refusal{200, `{"flavors":[]}`}, ""},
		"half an answer":       {list, refusal{200, `{"servers":[`}, ""},
		"not found":            {list, refusal{404, `{"itemNotFound":{}}`}, ""},
		"the key pair's page":  {pair, refusal{200, "{}"}, ""},
		"the key pair's error": {pair, refusal{500, `{"computeFault": {"code": 500, "message": "Unexpected API Error."}}`}, rkev1.ClassTransient},
	} {
		t.Run(name, func(t *testing.T) {
			nova := newNova(t)
			nova.refuse[c.at] = c.refusal
			found, err := nova.finder(nil).Find(t.Context(), lost("m-uid"))
			require.Error(t, err)
			require.NotErrorIs(t, err, ErrUncertain)
			require.Empty(t, found)
			require.NotContains(t, err.Error(), openStackPassword)
			if c.class != "" {
				requireClass(t, openStackName, c.class, err)
			}
		})
	}
	endless := newNova(t)
	endless.endless = true
	_, err := endless.finder(nil).Find(t.Context(), lost("m-uid"))
	require.ErrorIs(t, err, errTooMany)
	require.Len(t, endless.lists, maxPages+1)
}

func TestOpenStack_Remove(t *testing.T) {
	nova := newNova(t)
	finder := nova.finder(nil)
	require.NoError(t, finder.Remove(t.Context(), listed("s-1", "m-uid")))
	require.NoError(t, finder.Remove(t.Context(), listed("s-1", "m-uid")), "gone is gone")
	require.Equal(t, []string{"s-1", "s-1"}, nova.deleted)
	require.Len(t, nova.servers, 6)
	require.ErrorIs(t, finder.Remove(t.Context(), Server{ID: "s-0"}), errNoTag)
	require.ErrorIs(t, finder.Remove(t.Context(), listed("", "m")), errNoTag)
	nova.refuse["DELETE /"] = refusal{404, "<html>not found</html>"}
	require.ErrorContains(t, finder.Remove(t.Context(), listed("s-0", "m")), "removing server s-0", "a page that knows no servers")
	nova.refuse["DELETE /"] = refusal{409, `{"conflictingRequest": {"code": 409, "message": "Cannot 'delete' instance while it is locked"}}`}
	require.ErrorContains(t, finder.Remove(t.Context(), listed("s-0", "m")), "locked")
}

func TestOpenStack_Sweep(t *testing.T) {
	for name, c := range map[string]struct {
		machine Machine
		set     map[string]any
		gone    []string
	}{
		"by name and key":     {machine: sought("m"), gone: []string{"pool-1-aaaa"}},
		"a name with dots":    {machine: Machine{InstanceName: "pool.1", PublicKey: []byte(ourKey)}},
		"the key is lost":     {machine: Machine{InstanceName: "pool-1"}},
		"the user's key pair": {machine: sought("m"), set: map[string]any{"openstack-keypair-name": "mine", "openstack-private-key-file": "/k"}},
	} {
		t.Run(name, func(t *testing.T) {
			nova := newNova(t)
			require.NoError(t, nova.finder(c.set).Sweep(t.Context(), c.machine))
			for name := range newNova(t).keyPairs {
				_, there := nova.keyPairs[name]
				require.Equal(t, !slices.Contains(c.gone, name), there, name)
			}
		})
	}
	for body, status := range map[string]int{"{}": 200, "<html>": 200, `{"forbidden":{}}`: 403} {
		nova := newNova(t)
		nova.refuse["GET /v2.1/os-keypairs"] = refusal{status, body}
		require.ErrorContains(t, nova.finder(nil).Sweep(t.Context(), sought("m")), "looking for key pairs")
	}
	require.Equal(t, "a_b-", pairPrefix("a.b"))
}

func TestOpenStack_settings(t *testing.T) {
	nova := newNova(t)
	_, err := nova.finder(map[string]any{"openstack-region": "R2"}).Find(t.Context(), lost("m"))
	require.ErrorContains(t, err, "compute service", "a region that is not there is no empty one")
	_, err = nova.finder(map[string]any{"openstack-endpoint-type": "internalURL"}).Find(t.Context(), lost("m"))
	require.ErrorContains(t, err, "compute service")
	_, err = nova.finder(map[string]any{"openstack-auth-url": ""}).Find(t.Context(), lost("m"))
	require.Error(t, err)
	require.NotContains(t, err.Error(), openStackPassword)
	require.NotEqual(t, "", clouds.Of(openStackName).Classify(err.Error()))

	secured := httptest.NewTLSServer(http.NotFoundHandler())
	defer secured.Close()
	good, bad := filepath.Join(t.TempDir(), "ca.pem"), filepath.Join(t.TempDir(), "bad.pem")
	require.NoError(t, os.WriteFile(good, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secured.Certificate().Raw}), 0o600))
	require.NoError(t, os.WriteFile(bad, []byte("none"), 0o600))
	config, err := openStackTLS(flags{"openstack-cacert": good})
	require.NoError(t, err)
	require.NotNil(t, config.RootCAs)
	require.False(t, config.InsecureSkipVerify)
	config, err = openStackTLS(flags{"openstack-insecure": true})
	require.NoError(t, err)
	require.True(t, config.InsecureSkipVerify, "only when the user says so")
	for _, name := range []string{bad, filepath.Join(t.TempDir(), "missing")} {
		_, err = openStackTLS(flags{"openstack-cacert": name})
		require.ErrorContains(t, err, "openstack-cacert")
	}
}
