package finder

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
)

// account is a DigitalOcean account behind the real SDK. Its pages have one item, so that every list has several.
type account struct {
	// droplets are those without GPUs, gpus those with.
	droplets, gpus []map[string]any
	keys           []map[string]any
	// status is answered to everything when it is set; page404 has it come from something that is not the API.
	status  int
	page404 bool
	// empty has lists be {}, as of something that is another API.
	empty bool
	// noGPUs is answered to who asks for droplets with GPUs, noTag to who asks by tag.
	noGPUs, noTag int
	queries       []string
	deleted       []string
	// tags are how many things have a tag, -1 where the API does not tell; tagStatus is answered to who deletes one.
	tags      map[string]int
	tagStatus int
	// leaves goes, with the first of the lists, as soon as a first page was read.
	leaves func()
}

// finder is what For returns, but that it does not wait.
func (a *account) finder(t *testing.T) Finder {
	t.Helper()
	return ByTag{cloud: a.cloud(t), driver: digitalOceanName, pause: func(context.Context, time.Duration) error { return nil }}
}

func (a *account) cloud(t *testing.T) *digitalOcean {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/droplets", a.list)
	mux.HandleFunc("GET /v2/droplets/{id}", func(w http.ResponseWriter, r *http.Request) {
		for _, one := range a.droplets {
			if fmt.Sprint(one["id"]) == r.PathValue("id") {
				_ = json.NewEncoder(w).Encode(map[string]any{"droplet": one})
				return
			}
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, `{"id":"not_found","message":"The resource you were accessing could not be found."}`)
	})
	mux.HandleFunc("GET /v2/account/keys", func(w http.ResponseWriter, r *http.Request) { a.page(w, r, "ssh_keys", a.keys) })
	mux.HandleFunc("GET /v2/tags/{name}", a.tag)
	mux.HandleFunc("DELETE /v2/", func(w http.ResponseWriter, r *http.Request) {
		a.deleted = append(a.deleted, r.URL.Path)
		if strings.HasPrefix(r.URL.Path, "/v2/tags/") && a.tagStatus != 0 {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.WriteHeader(a.tagStatus)
			return
		}
		a.keys = slices.DeleteFunc(a.keys, func(key map[string]any) bool { return r.URL.Path == fmt.Sprintf("/v2/account/keys/%v", key["id"]) })
		w.WriteHeader(http.StatusNoContent)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.status != 0 {
			if !a.page404 {
				w.Header().Set("Content-Type", "application/json; charset=utf-8")
			}
			w.WriteHeader(a.status)
			_, _ = fmt.Fprint(w, `{"id":"x","message":"the words of the cloud"}`)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	client, err := godo.New(server.Client(), godo.SetBaseURL(server.URL+"/"))
	require.NoError(t, err)
	return &digitalOcean{client: client}
}

// tag answers as the API reference says, "Retrieve a Tag".
func (a *account) tag(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	count, known := a.tags[name]
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	switch {
	case !known:
		w.WriteHeader(http.StatusNotFound)
	case count < 0:
		_ = json.NewEncoder(w).Encode(map[string]any{"tag": map[string]any{"name": name}})
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"tag": map[string]any{"name": name, "resources": map[string]any{"count": count, "volumes": map[string]any{"count": count}}}})
	}
}

// list answers as the API reference says, "List All Droplets": those with GPUs only to who asks for them, and not by tag.
func (a *account) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	a.queries = append(a.queries, query.Get("tag_name")+query.Get("name")+query.Get("type"))
	found, status := a.droplets, 0
	switch tag := query.Get("tag_name"); {
	case tag != "" && query.Get("type") != "":
		status = http.StatusUnprocessableEntity
	case tag != "":
		status = a.noTag
		found = slices.DeleteFunc(slices.Clone(found), func(d map[string]any) bool { return !slices.Contains(d["tags"].([]string), tag) })
	case query.Get("type") == "gpus":
		found, status = a.gpus, a.noGPUs
	}
	if status != 0 {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, `{"id":"x","message":"the words of the cloud"}`)
		return
	}
	a.page(w, r, "droplets", found)
}

func (a *account) page(w http.ResponseWriter, r *http.Request, name string, items []map[string]any) {
	at, _ := strconv.Atoi(r.URL.Query().Get("page"))
	at = max(at, 1)
	answer := map[string]any{name: append([]map[string]any{}, items[min(at-1, len(items)):min(at, len(items))]...)}
	if a.empty {
		answer = map[string]any{}
	}
	if at < len(items) {
		next := fmt.Sprintf("http://%s%s?page=%d", r.Host, r.URL.Path, at+1)
		answer["links"] = map[string]any{"pages": map[string]any{"next": next, "last": next}}
	}
	_ = json.NewEncoder(w).Encode(answer)
	if a.leaves != nil && len(items) > 1 {
		a.leaves()
		a.leaves = nil
	}
}

func droplet(id int, addresses ...string) map[string]any {
	v4 := []map[string]any{}
	for i, address := range addresses {
		v4 = append(v4, map[string]any{"ip_address": address, "type": []string{"public", "private"}[i]})
	}
	return map[string]any{"id": id, "name": "pool-1", "tags": []string{jobrunner.TagMachineUID + ":3f-b"}, "region": map[string]any{"slug": "fra1"}, "networks": map[string]any{"v4": v4}}
}

var tagged = Machine{InstanceName: "pool-1", Tags: map[string]string{jobrunner.TagMachineUID: "3f/b", "other": "x"}}

func TestDigitalOcean_Find(t *testing.T) {
	others := droplet(14)
	others["tags"] = []string{jobrunner.TagMachineUID + ":other"}
	a := &account{droplets: []map[string]any{droplet(11, "198.18.0.1", "10.0.0.1"), droplet(12)}, gpus: []map[string]any{others, droplet(13)}}
	found, err := a.finder(t).Find(t.Context(), tagged)
	require.NoError(t, err)
	require.Equal(t, []Server{
		{ID: "11", Name: "pool-1", Record: map[string]any{
			"DropletID": 11, "DropletName": "pool-1", "MachineName": "pool-1", "Region": "fra1", "IPAddress": "198.18.0.1", "PrivateIPAddress": "10.0.0.1",
		}},
		{ID: "12", Name: "pool-1", Record: map[string]any{"DropletID": 12, "DropletName": "pool-1", "MachineName": "pool-1", "Region": "fra1"}},
		{ID: "13", Name: "pool-1", Record: map[string]any{"DropletID": 13, "DropletName": "pool-1", "MachineName": "pool-1", "Region": "fra1"}},
	}, plain(found), "with GPUs and without")
	require.Equal(t, jobrunner.TagMachineUID+":3f-b", a.queries[0], "it looks for the tag as the driver's flag writes it")
}

func TestDigitalOcean_Find_nothing(t *testing.T) {
	found, err := (&account{}).finder(t).Find(t.Context(), tagged)
	require.NoError(t, err)
	require.Empty(t, found)
	found, err = (&account{noTag: http.StatusNotFound}).finder(t).Find(t.Context(), tagged)
	require.NoError(t, err, "a tag that was never used does not exist")
	require.Empty(t, found)
}

// What is not the API, or no whole list of it, is no proof that there is no server.
func TestDigitalOcean_Find_isWholeOrFails(t *testing.T) {
	_, err := (&account{status: http.StatusNotFound, page404: true}).finder(t).Find(t.Context(), tagged)
	require.ErrorContains(t, err, "404", "a proxy's page")
	_, err = (&account{empty: true}).finder(t).Find(t.Context(), tagged)
	require.ErrorIs(t, err, errOtherAnswer)
	_, err = (&account{empty: true}).lister(t).List(t.Context())
	require.ErrorIs(t, err, errOtherAnswer)
	_, err = (&account{noGPUs: http.StatusNotFound}).finder(t).Find(t.Context(), tagged)
	require.ErrorContains(t, err, "404", "nobody knows whether it has GPUs")
	_, err = (&account{noGPUs: http.StatusServiceUnavailable}).lister(t).List(t.Context())
	require.ErrorContains(t, err, "503")
	endless := &account{}
	for id := range maxPages + 1 {
		endless.droplets = append(endless.droplets, droplet(id+1))
	}
	_, err = endless.finder(t).Find(t.Context(), tagged)
	require.ErrorIs(t, err, errTooMany)
}

// What is deleted while a list is read moves what follows to a page that was read already.
func TestDigitalOcean_whatMovesMeanwhile(t *testing.T) {
	a := &account{droplets: []map[string]any{droplet(10), droplet(11)}}
	a.leaves = func() { a.droplets = a.droplets[1:] }
	found, err := a.lister(t).List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"10", "11"}, ids(found), "one that runs is not said to be gone")

	a = &account{keys: []map[string]any{{"id": 1, "name": "me@home"}, {"id": 2, "name": "pool-1", "public_key": "ssh-rsa AAAAours x"}}}
	a.leaves = func() { a.keys = a.keys[1:] }
	require.NoError(t, a.finder(t).Sweep(t.Context(), Machine{InstanceName: "pool-1", PublicKey: []byte("ssh-rsa AAAAours x")}))
	require.Contains(t, a.deleted, "/v2/account/keys/2")
}

func TestDigitalOcean_Find_refuses(t *testing.T) {
	a := &account{droplets: []map[string]any{droplet(11)}}
	_, err := a.finder(t).Find(t.Context(), Machine{InstanceName: "pool-1", Tags: map[string]string{"other": "x"}})
	require.ErrorContains(t, err, "no tag with its UID")
	require.Empty(t, a.queries, "without a tag, everything would be found")
	_, err = (&account{status: http.StatusUnauthorized}).finder(t).Find(t.Context(), tagged)
	require.ErrorContains(t, err, "401")
	require.ErrorContains(t, err, "the words of the cloud")
}

func TestDigitalOcean_Remove(t *testing.T) {
	a := &account{}
	require.NoError(t, a.finder(t).Remove(t.Context(), listed("11", "3f-b")))
	require.Equal(t, []string{"/v2/droplets/11"}, a.deleted)
	require.NoError(t, (&account{status: http.StatusNotFound}).finder(t).Remove(t.Context(), listed("11", "3f-b")), "gone is gone")
	require.ErrorContains(t, (&account{status: http.StatusForbidden}).finder(t).Remove(t.Context(), listed("11", "3f-b")), "removing server 11")
	for _, id := range []string{"11/actions", "x"} {
		require.ErrorContains(t, a.finder(t).Remove(t.Context(), listed(id, "3f-b")), "not a number")
	}
	require.Error(t, a.finder(t).Remove(t.Context(), listed("", "3f-b")))
	require.Error(t, a.finder(t).Remove(t.Context(), Server{ID: "11"}), "whose it is, nobody knows")
	require.Len(t, a.deleted, 1)
}

func TestDigitalOcean_Sweep(t *testing.T) {
	const ours, others = "ssh-rsa AAAAours pool-1", "ssh-rsa AAAAothers me@home"
	keys := []map[string]any{
		{"id": 1, "name": "me@home", "public_key": others},
		{"id": 2, "name": "pool-1", "public_key": ours},
	}
	recorded := func(id string) map[string]any { return map[string]any{"SSHKeyID": json.Number(id)} }
	for name, c := range map[string]struct {
		machine        Machine
		droplets, gpus []map[string]any
		want           []string
	}{
		"the same public key, whatever its comment": {machine: Machine{InstanceName: "x", PublicKey: []byte("ssh-rsa AAAAours another\n")}, want: []string{"2"}},
		"the key that the record names":             {machine: Machine{InstanceName: "pool-1", Record: recorded("2")}, want: []string{"2"}},
		"a recorded number that is another's now":   {machine: Machine{InstanceName: "pool-1", Record: recorded("1")}},
		"the name, when the key is lost":            {machine: Machine{InstanceName: "pool-1"}, want: []string{"2"}},
		"the name, but a droplet bears it too":      {machine: Machine{InstanceName: "pool-1"}, droplets: []map[string]any{droplet(9)}},
		"the name, but one with GPUs bears it":      {machine: Machine{InstanceName: "pool-1"}, gpus: []map[string]any{droplet(9)}},
		"the name, but another public key":          {machine: Machine{InstanceName: "pool-1", PublicKey: []byte("ssh-rsa AAAAthird x")}},
		"the user's own key by its fingerprint": {machine: Machine{
			InstanceName: "pool-1", PublicKey: []byte(ours), Record: map[string]any{"SSHKeyFingerprint": "3b:16"},
		}},
		"a broken public key":  {machine: Machine{InstanceName: "x", PublicKey: []byte("ssh-rsa")}},
		"nothing to go by yet": {machine: Machine{InstanceName: "pool-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &account{keys: slices.Clone(keys), droplets: c.droplets, gpus: c.gpus}
			require.NoError(t, a.finder(t).Sweep(t.Context(), c.machine))
			var want []string
			for _, id := range c.want {
				want = append(want, "/v2/account/keys/"+id)
			}
			require.Equal(t, want, a.deleted)
		})
	}
	require.ErrorContains(t, (&account{status: http.StatusForbidden}).finder(t).Sweep(t.Context(), tagged), "looking for SSH keys")
}

// A tag goes when nothing of any kind has it, and not before.
func TestDigitalOcean_Sweep_tags(t *testing.T) {
	ours := machineTags("m-uid")
	names := clouds.Of(digitalOceanName).Tags.Items(ours)
	require.Len(t, names, 4)
	free := map[string]int{"mine": 0}
	for _, name := range names {
		free[name] = 0
	}
	machine := Machine{InstanceName: "pool-1", PublicKey: []byte("ssh-rsa AAAAours x"), Tags: ours, Leaving: true}
	with := func(name string, count int) map[string]int {
		tags := maps.Clone(free)
		tags[name] = count
		return tags
	}
	for name, c := range map[string]struct {
		tags    map[string]int
		change  func(*Machine)
		status  int
		deleted int
		err     string
	}{
		"nothing has them":               {tags: free, deleted: 4},
		"another server of the cluster":  {tags: with("drover-cluster-uid:c-uid", 1), deleted: 3},
		"a volume of somebody's":         {tags: with("drover-machine-uid:m-uid", 2), deleted: 3},
		"the API does not tell":          {tags: with("drover-machine-uid:m-uid", -1), deleted: 3},
		"they are gone":                  {},
		"another removal was faster":     {tags: free, status: http.StatusNotFound, deleted: 4},
		"the token may not":              {tags: free, status: http.StatusForbidden, deleted: 4, err: "removing the tag drover-machine-uid"},
		"a server is to be made":         {tags: free, change: func(m *Machine) { m.Leaving = false }},
		"the user's own SSH key is kept": {tags: free, change: func(m *Machine) { m.Record = map[string]any{"SSHKeyFingerprint": "3b:16"} }, deleted: 4},
	} {
		t.Run(name, func(t *testing.T) {
			machine := machine
			if c.change != nil {
				c.change(&machine)
			}
			a := &account{tags: c.tags, tagStatus: c.status}
			err := a.finder(t).Sweep(t.Context(), machine)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
			}
			require.Len(t, a.deleted, c.deleted)
			require.NotContains(t, a.deleted, "/v2/tags/mine")
		})
	}
	a := &account{tags: free}
	require.NoError(t, a.lister(t).Remove(t.Context(), Server{ID: "11", Tags: ours}))
	require.Len(t, a.deleted, 5, "a server that nobody knows takes its tags along")
}

func TestFor(t *testing.T) {
	require.NotNil(t, For("digitalocean", map[string]any{"digitalocean-access-token": "t"}))
	require.NotNil(t, For("digitalocean", nil), "a missing token is the cloud's to refuse")
	for _, name := range driver.BuiltinNames() {
		require.Equal(t, (clouds.Of(name).Finder.Kind != clouds.NoFinder), For(name, defaults(t, name, nil)) != nil, name)
	}
	for _, name := range []string{"", "generic", "acme", "amazonec2", "azure", "google", "openstack"} {
		require.Nil(t, For(name, map[string]any{}), "%s without the flags of the built-in driver", name)
	}
	// What would not carry the tag must not be looked for by it.
	require.Nil(t, For("amazonec2", defaults(t, "amazonec2", map[string]any{"amazonec2-request-spot-instance": true})))
	require.Nil(t, For("google", defaults(t, "google", map[string]any{"google-use-existing": true})))
}

// defaults are the values of a built-in driver's flags, with some set.
func defaults(tb testing.TB, name string, set map[string]any) map[string]any {
	tb.Helper()
	flags, ok := driver.Builtin(name)
	require.True(tb, ok)
	values := map[string]any{}
	for _, flag := range flags {
		if values[flag.Name] = flag.Default; flag.Default == nil {
			values[flag.Name] = ""
		}
	}
	for flag, value := range set {
		require.Contains(tb, values, flag, "the driver has this flag")
		values[flag] = value
	}
	return values
}
