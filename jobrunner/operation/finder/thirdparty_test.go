package finder

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
)

// fakeServer is a server of a fakeAPI; its tags are as the driver's flag writes them.
type fakeServer struct {
	id, name string
	tags     []string
	created  string
}

// fakeAPI is a cloud behind its real SDK, which answers in the shapes of its API reference. Its pages have one item, and it
// ignores every filter, so that nothing is ours because it was asked for.
type fakeAPI struct {
	servers []fakeServer
	keys    []fakeKey
	// status is answered to everything when it is set, deleteStatus to who deletes.
	status, deleteStatus int
	// page has it answer with a proxy's page, short has lists say that there is more than they have.
	page, short bool
	asked       []string
	deleted     []string
}

type fakeKey struct{ id, name, key string }

// thirdParty is what one cloud's API looks like.
type thirdParty struct {
	driver string
	open   func(url string) cloud
	// base of the paths of servers and keys.
	servers, keys string
	// list is a page, with its place and how many items there are; one is a server alone; key and failure the others.
	list    func(name string, items []any, page, total int, more bool) any
	one     func(item any) any
	server  func(fakeServer) any
	key     func(fakeKey) any
	failure func(status int) any
	// next is the page that a request asks for.
	next func(*http.Request) string
	// bad are IDs that no server can have.
	bad []string
}

var thirdParties = []thirdParty{
	{
		driver: hetznerName, servers: "/servers", keys: "/ssh_keys", bad: []string{"x", "1/2"},
		open: func(url string) cloud {
			return accountCloud{accountAPI: newHetzner("t", hcloud.WithEndpoint(url), hcloud.WithRetryOpts(hcloud.RetryOpts{})), driver: hetznerName}
		},
		// docs.hetzner.cloud, "Pagination", "Errors", "Servers", "SSH Keys".
		list: func(name string, items []any, page, total int, more bool) any {
			var next any
			if more {
				next = page + 1
			}
			return map[string]any{name: items, "meta": map[string]any{"pagination": map[string]any{
				"page": page, "per_page": 50, "previous_page": nil, "next_page": next, "last_page": total, "total_entries": total}}}
		},
		one: func(item any) any { return map[string]any{"server": item} },
		server: func(s fakeServer) any {
			id, _ := strconv.Atoi(s.id)
			labels := map[string]string{}
			for _, tag := range s.tags {
				key, value, _ := strings.Cut(tag, "=")
				labels[key] = value
			}
			return map[string]any{"id": id, "name": s.name, "status": "running", "created": s.created, "labels": labels, "location": map[string]any{"name": "fsn1"},
				"public_net": map[string]any{"ipv4": map[string]any{"ip": "198.18.0.1", "blocked": false}}, "private_net": []any{}}
		},
		key: func(k fakeKey) any {
			id, _ := strconv.Atoi(k.id)
			return map[string]any{"id": id, "name": k.name, "public_key": k.key, "fingerprint": "b7:2f", "labels": map[string]string{}}
		},
		failure: func(status int) any {
			code := map[int]string{401: "unauthorized", 403: "forbidden", 404: "not_found", 429: "rate_limit_exceeded", 503: "unavailable"}[status]
			return map[string]any{"error": map[string]any{"code": code, "message": "the words of the cloud", "details": nil}}
		},
		next: func(r *http.Request) string { return r.URL.Query().Get("page") },
	},
	{
		driver: linodeName, servers: "/v4/linode/instances", bad: []string{"x", "0", "-1"},
		open: func(url string) cloud {
			l := newLinode("t")
			l.client.SetBaseURL(url)
			l.client.SetRetryCount(0)
			return accountCloud{accountAPI: l, driver: linodeName}
		},
		// techdocs.akamai.com, Linode API, "Pagination", "Errors", "List Linodes".
		list: func(_ string, items []any, page, total int, _ bool) any {
			return map[string]any{"data": items, "page": page, "pages": max(total, 1), "results": total}
		},
		one: func(item any) any { return item },
		server: func(s fakeServer) any {
			id, _ := strconv.Atoi(s.id)
			return map[string]any{"id": id, "label": s.name, "region": "us-east", "status": "running", "tags": s.tags,
				"created": strings.TrimSuffix(s.created, "Z"), "ipv4": []string{"198.18.0.1", "192.168.1.1"}}
		},
		failure: func(int) any {
			return map[string]any{"errors": []any{map[string]any{"reason": "the words of the cloud"}}}
		},
		next: func(r *http.Request) string { return r.URL.Query().Get("page") },
	},
	{
		driver: vultrName, servers: "/v2/instances", keys: "/v2/ssh-keys", bad: []string{"../account", "9"},
		open: func(url string) cloud {
			v := newVultr("t")
			_ = v.client.SetBaseURL(url)
			v.client.SetRetryLimit(0)
			return accountCloud{accountAPI: v, driver: vultrName}
		},
		// vultr.com/api, "Parameters" (meta and paging), "Response codes", "List Instances".
		list: func(name string, items []any, page, total int, more bool) any {
			next := ""
			if more {
				next = strconv.Itoa(page + 1)
			}
			return map[string]any{name: items, "meta": map[string]any{"total": total, "links": map[string]any{"next": next, "prev": ""}}}
		},
		one: func(item any) any { return map[string]any{"instance": item} },
		server: func(s fakeServer) any {
			return map[string]any{"id": s.id, "label": s.name, "hostname": s.name, "region": "ewr", "status": "active", "main_ip": "198.18.0.1",
				"date_created": strings.Replace(s.created, "Z", "+00:00", 1), "tags": s.tags}
		},
		key: func(k fakeKey) any {
			return map[string]any{"id": k.id, "name": k.name, "ssh_key": k.key, "date_created": ""}
		},
		failure: func(status int) any { return map[string]any{"error": "the words of the cloud", "status": status} },
		next:    func(r *http.Request) string { return r.URL.Query().Get("cursor") },
	},
}

// serve starts an account and returns its cloud.
func (a *fakeAPI) serve(t *testing.T, p thirdParty) cloud {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.answer(w, r, p) }))
	t.Cleanup(server.Close)
	return p.open(server.URL)
}

func (a *fakeAPI) answer(w http.ResponseWriter, r *http.Request, p thirdParty) {
	a.asked = append(a.asked, r.Method+" "+r.URL.Path+" "+r.URL.RawQuery+r.Header.Get("X-Filter"))
	if a.page {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(max(a.status, http.StatusOK))
		_, _ = fmt.Fprint(w, "<html>log in first</html>")
		return
	}
	status, body := a.status, any(nil)
	switch {
	case status != 0:
		body = p.failure(status)
	case r.Header.Get("Authorization") != "Bearer t":
		status = http.StatusUnauthorized
		body = p.failure(status)
	case r.Method == http.MethodDelete:
		status, body = a.remove(r.URL.Path, p)
	case r.URL.Path == p.servers:
		status, body = http.StatusOK, a.pageOf(r, p, "servers", len(a.servers), func(at int) any { return p.server(a.servers[at]) })
	case p.keys != "" && r.URL.Path == p.keys:
		keys := slices.DeleteFunc(slices.Clone(a.keys), func(k fakeKey) bool { return r.URL.Query().Has("name") && r.URL.Query().Get("name") != k.name })
		status, body = http.StatusOK, a.pageOf(r, p, "ssh_keys", len(keys), func(at int) any { return p.key(keys[at]) })
	default:
		status, body = http.StatusNotFound, p.failure(http.StatusNotFound)
		for _, s := range a.servers {
			if r.URL.Path == p.servers+"/"+s.id {
				status, body = http.StatusOK, p.one(p.server(s))
			}
		}
	}
	if body != nil {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
	}
	w.WriteHeader(status)
	if body != nil {
		_ = json.NewEncoder(w).Encode(body)
	}
}

func (a *fakeAPI) remove(path string, p thirdParty) (status int, body any) {
	if a.deleteStatus != 0 {
		return a.deleteStatus, p.failure(a.deleteStatus)
	}
	a.deleted = append(a.deleted, path)
	switch p.driver {
	case hetznerName:
		if strings.HasPrefix(path, p.servers) {
			return http.StatusOK, map[string]any{"action": map[string]any{"id": 1, "command": "delete_server", "status": "running"}}
		}
	case linodeName:
		return http.StatusOK, map[string]any{}
	}
	return http.StatusNoContent, nil
}

func (a *fakeAPI) pageOf(r *http.Request, p thirdParty, name string, count int, item func(int) any) any {
	if p.driver == vultrName && name == "servers" {
		name = "instances"
	}
	page, _ := strconv.Atoi(p.next(r))
	page = max(page, 1)
	items := []any{}
	if page <= count {
		items = append(items, item(page-1))
	}
	total := count
	if a.short {
		total = count + 1
	}
	if a.short && p.driver == linodeName { // its pages are counted, so that the last one is empty
		return map[string]any{"data": items, "page": page, "pages": max(count, 1), "results": total}
	}
	return p.list(name, items, page, total, page < count)
}

// written are a machine's tags as the flag of the driver writes them.
func written(driver, uid string) []string { return clouds.Of(driver).Tags.Items(machineTags(uid)) }

const uidA, uidB = "0f8e3a52-5c1d-4d6b-9f5e-3b1f0c7a9d11", "1a2b3c4d-0000-4000-8000-000000000000"

func thirdPartyAccount(p thirdParty) *fakeAPI {
	const created = "2026-11-01T10:00:00Z"
	return &fakeAPI{servers: []fakeServer{
		{"11", "pool-1", append(written(p.driver, uidA), "mine=1", "mine"), created},
		{"12", "pool-2", written(p.driver, uidB), created},
		{"13", "theirs", []string{"mine=1", "drover", "a:b"}, created},
		{"14", "pool-1", written(p.driver, ""), created},
		{"11", "pool-1", written(p.driver, uidA), created},
	}}
}

func forThirdParties(t *testing.T, do func(t *testing.T, p thirdParty)) {
	t.Helper()
	for _, p := range thirdParties {
		t.Run(p.driver, func(t *testing.T) { do(t, p) })
	}
}

func TestThirdParties_Find(t *testing.T) {
	forThirdParties(t, func(t *testing.T, p thirdParty) {
		a := thirdPartyAccount(p)
		finder, waits := impatient(t, p.driver, a.serve(t, p))
		found, err := finder.Find(t.Context(), sought(uidA))
		require.NoError(t, err)
		require.Len(t, found, 1, "once, though a list that moves shows it twice, and nobody else's, though the API shows all")
		require.Equal(t, uidA, found[0].Tags[jobrunner.TagMachineUID])
		require.Equal(t, "198.18.0.1", found[0].Record["IPAddress"])
		record, err := json.Marshal(found[0].Record)
		require.NoError(t, err)
		decoded, err := clouds.DecodeRecord(record)
		require.NoError(t, err)
		require.Equal(t, "11", clouds.Of(p.driver).ServerID(decoded), "the driver's record names it")
		times := map[string]int{"vultr": 1}
		require.Len(t, a.asked, len(a.servers)*cmp.Or(times[p.driver], 2), "page by page, and those with numbers twice")
		require.Contains(t, a.asked[0], uidA, "it asks by the tag as the driver's flag writes it")

		a.asked = nil
		_, err = finder.Find(t.Context(), Machine{InstanceName: "pool-1", Lost: true})
		require.ErrorIs(t, err, errNoTag)
		require.Empty(t, a.asked, "without a tag, everything would be found")

		found, err = finder.Find(t.Context(), lost("nobody"))
		require.NoError(t, err)
		require.Empty(t, found)
		require.Len(t, *waits, 2)
	})
}

func TestThirdParties_List(t *testing.T) {
	forThirdParties(t, func(t *testing.T, p thirdParty) {
		found, err := ByTag{cloud: thirdPartyAccount(p).serve(t, p)}.List(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"11", "12"}, ids(found))
		require.Equal(t, machineTags(uidA), found[0].Tags)
		require.Equal(t, time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC), found[0].Created.UTC())
		require.Empty(t, ByTag{cloud: p.open("")}.Within(t.Context()))
	})
}

// What is not the API, or no whole list of it, is no proof that there is no server.
func TestThirdParties_areWholeOrFail(t *testing.T) {
	forThirdParties(t, func(t *testing.T, p thirdParty) {
		endless := &fakeAPI{}
		for id := range maxPages + 1 {
			endless.servers = append(endless.servers, fakeServer{strconv.Itoa(id + 1), "x", nil, "2026-11-01T10:00:00Z"})
		}
		short := thirdPartyAccount(p)
		short.short = true
		for name, c := range map[string]struct {
			account *fakeAPI
			want    string
		}{
			"it says there is more": {short, errNotWhole.Error()},
			"there is no end":       {endless, errTooMany.Error()},
			"a proxy's page":        {&fakeAPI{page: true}, errNoJSON.Error()},
			"a proxy's 404":         {&fakeAPI{page: true, status: http.StatusNotFound}, errNoJSON.Error()},
		} {
			t.Run(name, func(t *testing.T) {
				found, err := ByTag{cloud: c.account.serve(t, p)}.List(t.Context())
				require.ErrorContains(t, err, c.want)
				require.Empty(t, found)
				finder, _ := impatient(t, p.driver, c.account.serve(t, p))
				_, err = finder.Find(t.Context(), sought(uidA))
				require.ErrorContains(t, err, c.want)
			})
		}
		for status, class := range map[int]string{401: rkev1.ClassUnauthorized, 403: rkev1.ClassUnauthorized, 429: rkev1.ClassThrottled, 503: rkev1.ClassTransient} {
			finder, _ := impatient(t, p.driver, (&fakeAPI{status: status}).serve(t, p))
			_, err := finder.Find(t.Context(), sought(uidA))
			requireClass(t, p.driver, class, err)
			require.ErrorContains(t, err, "the words of the cloud")
		}
		_, err := ByTag{cloud: (&fakeAPI{status: http.StatusNotFound}).serve(t, p)}.List(t.Context())
		require.Error(t, err, "a list that is not there tells of no servers")
	})
}

func TestThirdParties_Remove(t *testing.T) {
	forThirdParties(t, func(t *testing.T, p thirdParty) {
		a := thirdPartyAccount(p)
		finder, _ := impatient(t, p.driver, a.serve(t, p))
		require.NoError(t, finder.Remove(t.Context(), listed("11", uidA)))
		require.Equal(t, []string{p.servers + "/11"}, a.deleted)
		require.NoError(t, finder.Remove(t.Context(), listed("99", uidA)), "gone is gone")
		require.ErrorIs(t, finder.Remove(t.Context(), listed("12", uidA)), errNotOurs, "it got another's tag")
		require.ErrorIs(t, finder.Remove(t.Context(), listed("13", uidA)), errNotOurs)
		require.ErrorIs(t, finder.Remove(t.Context(), Server{ID: "11"}), errNoTag)
		for _, id := range p.bad {
			_ = finder.Remove(t.Context(), listed(id, uidA))
		}
		require.Len(t, a.deleted, 1)
		for status, fails := range map[int]bool{404: false, 403: true, 503: true} {
			a := thirdPartyAccount(p)
			a.deleteStatus = status
			err := ByTag{cloud: a.serve(t, p)}.Remove(t.Context(), listed("11", uidA))
			require.Equal(t, fails, err != nil, "%d: %v", status, err)
		}
		require.Error(t, ByTag{cloud: (&fakeAPI{status: 503}).serve(t, p)}.Remove(t.Context(), listed("11", uidA)))
	})
}

func TestThirdParties_Sweep(t *testing.T) {
	const ours = "ssh-rsa AAAAours pool-1"
	machine := Machine{InstanceName: "pool-1", PublicKey: []byte(ours + "\n"), Leaving: true}
	forThirdParties(t, func(t *testing.T, p thirdParty) {
		for name, c := range map[string]struct {
			keys   []fakeKey
			change func(*Machine)
			swept  bool
		}{
			"the machine's key":                   {keys: []fakeKey{{"1", "me@home", othersKey}, {"2", "pool-1", ours}}, swept: true},
			"its name, but another's key":         {keys: []fakeKey{{"2", "pool-1", othersKey}}},
			"its name, when its key is not known": {keys: []fakeKey{{"2", "pool-1", ours}}, change: func(m *Machine) { m.PublicKey = nil }},
			"nothing":                             {},
		} {
			t.Run(name, func(t *testing.T) {
				a, machine := &fakeAPI{keys: c.keys}, machine
				if c.change != nil {
					c.change(&machine)
				}
				require.NoError(t, a.serve(t, p).Sweep(t.Context(), machine))
				if !c.swept || p.keys == "" {
					require.Empty(t, a.deleted)
					return
				}
				require.Equal(t, []string{p.keys + "/2"}, a.deleted)
			})
		}
		if p.keys == "" {
			return
		}
		require.ErrorContains(t, (&fakeAPI{status: 503}).serve(t, p).Sweep(t.Context(), machine), "looking for SSH keys")
		refused := &fakeAPI{keys: []fakeKey{{"2", "pool-1", ours}}, deleteStatus: 403}
		require.ErrorContains(t, refused.serve(t, p).Sweep(t.Context(), machine), "removing the SSH key 2")
	})
	t.Run("hetzner spares the user's own key", func(t *testing.T) {
		a := &fakeAPI{keys: []fakeKey{{"2", "pool-1", ours}}}
		machine.Record = map[string]any{"IsExistingKey": true}
		require.NoError(t, a.serve(t, thirdParties[0]).Sweep(t.Context(), machine))
		require.Empty(t, a.deleted)
	})
}
