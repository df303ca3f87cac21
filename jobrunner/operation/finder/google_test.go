package finder

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	compute "google.golang.org/api/compute/v1"
	"google.golang.org/api/option"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
)

// gceProject is a project in the shapes of the Compute Engine API v1: instances.list, instances.aggregatedList, get, delete
// and zoneOperations.wait, behind the token endpoint of a service account. Its pages have one instance.
type gceProject struct {
	*testing.T
	instances []map[string]any
	// refuse is what is answered to a request whose address contains the key.
	refuse map[string]refusal
	// warning is the code of the warning of the zone us-east1-b in an aggregated list.
	warning     string
	unreachable []string
	endless     bool
	// waits is how many waits an operation takes; failure is how it ends.
	waits   int
	failure string

	queries []url.Values
	deleted []string
	tokens  int
	address string
}

const gceZone = "us-central1-a"

// gceInstance is an instance as the API shows it.
func gceInstance(number int, name, zone string, labels map[string]string, metadata ...string) map[string]any {
	items := []map[string]any{}
	for at := 0; at+1 < len(metadata); at += 2 {
		items = append(items, map[string]any{"key": metadata[at], "value": metadata[at+1]})
	}
	return map[string]any{
		"kind": "compute#instance", "id": strconv.Itoa(number), "creationTimestamp": "2026-11-01T02:00:00.000-08:00", "name": name, "status": "RUNNING",
		"zone": "https://www.googleapis.com/compute/v1/projects/p1/zones/" + zone, "labels": labels, "labelFingerprint": "42WmSpB8rSM=",
		"metadata":          map[string]any{"kind": "compute#metadata", "fingerprint": "x", "items": items},
		"networkInterfaces": []map[string]any{{"networkIP": "10.128.0.2", "accessConfigs": []map[string]any{{"type": "ONE_TO_ONE_NAT", "natIP": "198.18.6.6"}}}},
	}
}

func gceError(status int, reason, message string) refusal {
	body, _ := json.Marshal(map[string]any{"error": map[string]any{"code": status, "message": message,
		"errors": []map[string]any{{"message": message, "domain": "global", "reason": reason}}}})
	return refusal{status, string(body)}
}

func (g *gceProject) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	for part, refused := range g.refuse {
		if strings.Contains(r.Method+" "+r.URL.Path, part) {
			w.WriteHeader(refused.status)
			_, _ = fmt.Fprint(w, refused.body)
			return
		}
	}
	if r.URL.Path == "/token" {
		g.tokens++
		_, _ = fmt.Fprint(w, `{"access_token":"ya29.token","token_type":"Bearer","expires_in":3600}`)
		return
	}
	if r.Header.Get("Authorization") != "Bearer ya29.token" {
		g.Errorf("no token in %s %s", r.Method, r.URL)
	}
	g.serve(w, r)
}

func (g *gceProject) serve(w http.ResponseWriter, r *http.Request) {
	root := "/projects/p1/"
	zone, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, root+"zones/"), "/")
	name := strings.TrimPrefix(rest, "instances/")
	switch {
	case r.URL.Path == root+"aggregated/instances":
		g.aggregated(w, r)
	case rest == "instances":
		g.list(w, r, zone)
	case strings.HasPrefix(rest, "operations/") && r.Method == http.MethodPost:
		g.operation(w)
	case r.Method == http.MethodGet || r.Method == http.MethodDelete:
		g.one(w, r, zone, name)
	default:
		g.Errorf("unexpected %s %s", r.Method, r.URL)
	}
}

// selected are the instances that the filter lets through: labels.KEY=VALUE or labels.KEY:*.
func (g *gceProject) selected(r *http.Request, zone string) []map[string]any {
	g.queries = append(g.queries, r.URL.Query())
	filter := strings.TrimPrefix(r.URL.Query().Get("filter"), "labels.")
	key, value, exact := strings.Cut(filter, "=")
	var out []map[string]any
	for _, instance := range g.instances {
		labels, _ := instance["labels"].(map[string]string)
		_, has := labels[strings.TrimSuffix(key, ":*")]
		if (zone == "" || strings.HasSuffix(instance["zone"].(string), "/"+zone)) && has && (!exact || labels[key] == value) {
			out = append(out, instance)
		}
	}
	return out
}

func (g *gceProject) page(r *http.Request, all []map[string]any) (items []map[string]any, next string) {
	at, _ := strconv.Atoi(r.URL.Query().Get("pageToken"))
	if at+1 < len(all) || g.endless {
		next = strconv.Itoa(at + 1)
	}
	return all[min(at, len(all)):min(at+1, len(all))], next
}

func (g *gceProject) list(w http.ResponseWriter, r *http.Request, zone string) {
	items, next := g.page(r, g.selected(r, zone))
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "compute#instanceList", "id": "x", "items": items, "nextPageToken": next})
}

func (g *gceProject) aggregated(w http.ResponseWriter, r *http.Request) {
	items, next := g.page(r, g.selected(r, ""))
	none := map[string]any{"warning": map[string]any{"code": "NO_RESULTS_ON_PAGE", "message": "There are no results for scope 'zones/x' on this page."}}
	scopes := map[string]any{"zones/us-west1-a": none}
	if g.warning != "" {
		scopes["zones/us-east1-b"] = map[string]any{"warning": map[string]any{"code": g.warning, "message": "it does not answer"}}
	}
	for _, item := range items {
		scopes["zones/of-"+item["name"].(string)] = map[string]any{"instances": []map[string]any{item}}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "compute#instanceAggregatedList", "items": scopes, "nextPageToken": next, "unreachables": g.unreachable})
}

func (g *gceProject) one(w http.ResponseWriter, r *http.Request, zone, name string) {
	at := slices.IndexFunc(g.instances, func(instance map[string]any) bool {
		return (instance["name"] == name || instance["id"] == name) && strings.HasSuffix(instance["zone"].(string), "/"+zone)
	})
	if at < 0 {
		refused := gceError(404, "notFound", "The resource 'projects/p1/zones/"+zone+"/instances/"+name+"' was not found")
		w.WriteHeader(refused.status)
		_, _ = fmt.Fprint(w, refused.body)
		return
	}
	if r.Method == http.MethodGet {
		_ = json.NewEncoder(w).Encode(g.instances[at])
		return
	}
	g.deleted = append(g.deleted, zone+"/"+name)
	g.instances = slices.Delete(g.instances, at, at+1)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "compute#operation", "name": "operation-1", "status": "RUNNING"})
}

func (g *gceProject) operation(w http.ResponseWriter) {
	answer := map[string]any{"kind": "compute#operation", "name": "operation-1", "status": "RUNNING"}
	if g.waits--; g.waits <= 0 {
		answer["status"] = "DONE"
		if g.failure != "" {
			answer["error"] = map[string]any{"errors": []map[string]any{{"code": g.failure, "message": "in words"}}}
		}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// gceKey is made once, for it takes long.
var gceKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// serviceAccount is a key file whose token is had from the project.
func (g *gceProject) serviceAccount() string {
	g.Helper()
	key, err := gceKey()
	require.NoError(g, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(g, err)
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "p1", "private_key_id": "k", "client_email": "drover@p1.iam.gserviceaccount.com",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})), "token_uri": g.address + "/token",
	})
	require.NoError(g, err)
	return string(text)
}

func (g *gceProject) google(set map[string]any) *googleCompute {
	g.Helper()
	server := httptest.NewServer(g)
	g.Cleanup(server.Close)
	g.address = server.URL
	account := g.serviceAccount()
	values := map[string]any{"google-project": "p1", "google-zone": gceZone}
	maps.Copy(values, set)
	out := newGoogle(defaults(g.T, googleName, values))
	out.connect = func(ctx context.Context) (*compute.Service, string, error) {
		return connectGoogle(ctx, account, option.WithEndpoint(server.URL+"/"))
	}
	return out
}

func newGCE(t *testing.T) *gceProject {
	t.Helper()
	ours, others := pairsOf(googleName, "m-uid"), pairsOf(googleName, "other")
	keys := "docker-user:" + ourKey + " docker-user\n"
	return &gceProject{T: t, refuse: map[string]refusal{}, instances: []map[string]any{
		gceInstance(1, "pool-1", gceZone, ours, "sshKeys", keys, "user-data", "#cloud-config"),
		gceInstance(2, "pool-2", gceZone, others, "sshKeys", keys),
		gceInstance(3, "pool-3", gceZone, map[string]string{"mine": "yes"}),
		gceInstance(4, "pool-4", "us-east1-b", others, "sshKeys", keys),
		gceInstance(5, "pool-5", gceZone, map[string]string{"drover-cluster": "c1"}),
	}}
}

func TestGoogle_Find(t *testing.T) {
	project := newGCE(t)
	finder, _ := impatient(t, googleName, project.google(nil))
	found, err := finder.Find(t.Context(), sought("m-uid"))
	require.NoError(t, err)
	require.Equal(t, []Server{{ID: "us-central1-a/pool-1", Name: "pool-1", Record: map[string]any{
		"MachineName": "pool-1", "Project": "p1", "Zone": gceZone, "IPAddress": "198.18.6.6"}}}, plain(found))
	require.Equal(t, "labels.drover-machine-uid=m-uid", project.queries[0].Get("filter"))
	require.Equal(t, "200", project.queries[0].Get("maxResults"))
	require.Equal(t, 1, project.tokens)

	found, err = finder.Find(t.Context(), lost("nobody"))
	require.NoError(t, err)
	require.Empty(t, found)
}

// The driver brings the SSH key and the user data in a second request: without it the instance is of no use.
func TestGoogle_Find_unfinished(t *testing.T) {
	for name, c := range map[string]struct {
		metadata []string
		status   string
		want     bool
	}{
		"all of it":           {metadata: []string{"sshKeys", "u:" + ourKey + "\n"}},
		"the newer key":       {metadata: []string{"ssh-keys", "me:" + othersKey + "\nu:" + ourKey}},
		"a stopped one":       {metadata: []string{"sshKeys", "u:" + ourKey}, status: "TERMINATED"},
		"no metadata yet":     {want: true},
		"only user data":      {metadata: []string{"user-data", "u:" + ourKey}, want: true},
		"another's key":       {metadata: []string{"sshKeys", "u:" + othersKey}, want: true},
		"a line without user": {metadata: []string{"sshKeys", "garbage"}, want: true},
		"one that is going":   {metadata: []string{"sshKeys", "u:" + ourKey}, status: "STOPPING", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			project := newGCE(t)
			instance := gceInstance(1, "pool-1", gceZone, pairsOf(googleName, "m-uid"), c.metadata...)
			if c.status != "" {
				instance["status"] = c.status
			}
			project.instances = []map[string]any{instance}
			finder, _ := impatient(t, googleName, project.google(nil))
			found, err := finder.Find(t.Context(), sought("m-uid"))
			require.NoError(t, err)
			require.Len(t, found, 1)
			require.Equal(t, c.want, found[0].Unfinished)
		})
	}
	require.Empty(t, instanceKeys(nil))
	require.NotNil(t, instanceKeys(nil), "it lets nobody in, which is known")
}

func TestGoogle_List(t *testing.T) {
	project := newGCE(t)
	found, err := ByTag{cloud: project.google(map[string]any{"google-project": ""})}.List(t.Context())
	require.NoError(t, err, "the project is the credential's")
	require.Equal(t, []string{"us-central1-a/pool-1", "us-central1-a/pool-2", "us-east1-b/pool-4"}, ids(found), "of all zones")
	require.Equal(t, machineTags("m-uid"), found[0].Tags)
	require.Equal(t, time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC), found[0].Created.UTC())
	require.Equal(t, "labels.drover-machine-uid:*", project.queries[0].Get("filter"))
	require.Equal(t, "gce://p1/", project.google(map[string]any{"google-project": ""}).Within(t.Context()))

	project.instances[0]["creationTimestamp"] = "yesterday"
	found, err = ByTag{cloud: project.google(nil)}.List(t.Context())
	require.NoError(t, err)
	require.True(t, found[0].Created.IsZero(), "an age that is not known is none")
}

func TestGoogle_isWholeOrFails(t *testing.T) {
	page := refusal{200, "<html><body>Please log in</body></html>"}
	for name, c := range map[string]struct {
		set   func(*gceProject)
		class string
		find  bool
	}{
		"throttled": {func(g *gceProject) {
			g.refuse["/instances"] = gceError(403, "rateLimitExceeded", "Rate Limit Exceeded")
		}, rkev1.ClassThrottled, true},
		"not allowed": {func(g *gceProject) {
			g.refuse["/instances"] = gceError(403, "forbidden", "Required 'compute.instances.list' permission for 'projects/p1/zones/z/instances'")
		}, rkev1.ClassUnauthorized, true},
		"no such project": {func(g *gceProject) {
			g.refuse["/instances"] = gceError(404, "notFound", "The resource 'projects/p1' was not found")
		}, rkev1.ClassInvalid, true},
		"an accident": {func(g *gceProject) { g.refuse["/instances"] = gceError(503, "backendError", "Backend Error") }, rkev1.ClassTransient, true},
		"a key that was revoked": {func(g *gceProject) {
			g.refuse["/token"] = refusal{400, `{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`}
		}, rkev1.ClassUnauthorized, true},
		"a proxy's page":             {func(g *gceProject) { g.refuse["/instances"] = page }, "", true},
		"an answer with nothing":     {func(g *gceProject) { g.refuse["/instances"] = refusal{200, "{}"} }, "", true},
		"another list":               {func(g *gceProject) { g.refuse["/instances"] = refusal{200, `{"kind":"compute#diskList"}`} }, "", true},
		"half an answer":             {func(g *gceProject) { g.refuse["/instances"] = refusal{200, `{"kind":"compute#inst`} }, "", true},
		"a zone that does not tell":  {func(g *gceProject) { g.warning = "UNREACHABLE" }, "", false},
		"zones that cannot be asked": {func(g *gceProject) { g.unreachable = []string{"zones/us-east1-b"} }, rkev1.ClassTransient, false},
		"an endless list":            {func(g *gceProject) { g.endless = true }, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			project := newGCE(t)
			c.set(project)
			found, err := ByTag{cloud: project.google(nil)}.List(t.Context())
			require.Error(t, err)
			require.Empty(t, found)
			if c.class != "" {
				requireClass(t, googleName, c.class, err)
			}
			finder, waits := impatient(t, googleName, project.google(nil))
			_, err = finder.Find(t.Context(), lost("m-uid"))
			require.Equal(t, c.find, err != nil, "%v", err)
			require.Empty(t, *waits)
		})
	}
}

func TestGoogle_Remove(t *testing.T) {
	project := newGCE(t)
	project.waits = 3
	finder, _ := impatient(t, googleName, project.google(nil))
	ours := listed(gceZone+"/pool-1", "m-uid")
	require.NoError(t, finder.Remove(t.Context(), ours))
	require.Equal(t, []string{gceZone + "/1"}, project.deleted, "by its number, which is not given twice")
	require.LessOrEqual(t, project.waits, 0, "until it is gone")
	require.NoError(t, finder.Remove(t.Context(), ours), "gone is gone")
	for _, id := range []string{gceZone + "/pool-2", gceZone + "/pool-3"} {
		require.ErrorIs(t, finder.Remove(t.Context(), listed(id, "m-uid")), errNotOurs)
	}
	for _, id := range []string{"pool-1", "/pool-1", gceZone + "/", gceZone + "/a/b"} {
		require.ErrorContains(t, finder.Remove(t.Context(), listed(id, "m-uid")), "does not belong to an instance")
	}
	require.Len(t, project.deleted, 1)
	require.NoError(t, finder.Sweep(t.Context(), sought("m-uid")))
}

func TestGoogle_Remove_fails(t *testing.T) {
	ours := listed(gceZone+"/pool-1", "m-uid")
	for name, c := range map[string]struct {
		set  func(*gceProject)
		want string
	}{
		"protected": {func(g *gceProject) {
			g.refuse["DELETE /"] = gceError(400, "invalid", "Invalid resource usage: 'Resource cannot be deleted if it's protected against deletion.'")
		}, "protected"},
		"the operation fails":    {func(g *gceProject) { g.failure = "RESOURCE_NOT_READY" }, "RESOURCE_NOT_READY: in words"},
		"it takes for ever":      {func(g *gceProject) { g.waits = 99 }, "still being removed"},
		"the wait fails":         {func(g *gceProject) { g.refuse["POST /"] = gceError(500, "backendError", "Backend Error") }, "Backend Error"},
		"a page that knows none": {func(g *gceProject) { g.refuse["GET /"] = refusal{404, "<html>not found</html>"} }, "404"},
		"the project is not there": {func(g *gceProject) {
			g.refuse["GET /"] = gceError(404, "notFound", "The resource 'projects/p1' was not found")
		}, "projects/p1"},
	} {
		t.Run(name, func(t *testing.T) {
			project := newGCE(t)
			c.set(project)
			finder, _ := impatient(t, googleName, project.google(nil))
			require.ErrorContains(t, finder.Remove(t.Context(), ours), c.want)
		})
	}
	project := newGCE(t)
	project.refuse["DELETE /"] = gceError(404, "notFound", "The resource 'projects/p1/zones/z/instances/1' was not found")
	finder, _ := impatient(t, googleName, project.google(nil))
	require.NoError(t, finder.Remove(t.Context(), ours), "somebody was faster")
}

func TestGoogleCredential(t *testing.T) {
	project := &gceProject{T: t, address: "http://127.0.0.1:1"}
	account := project.serviceAccount()
	for name, c := range map[string]struct {
		given string
		bad   bool
	}{
		"JSON":            {given: account},
		"in base64":       {given: base64.StdEncoding.EncodeToString([]byte(account))},
		"no JSON":         {given: "MARKER", bad: true},
		"no type":         {given: `{"private_key":"MARKER"}`, bad: true},
		"an unknown type": {given: `{"type":"MARKER"}`, bad: true},
		"half of it":      {given: `{"type":"service_account","private_key":"MARKER`, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			credential, err := googleCredential(t.Context(), c.given)
			if c.bad {
				require.Error(t, err)
				require.NotContains(t, err.Error(), "MARKER")
				require.Equal(t, rkev1.ClassUnauthorized, clouds.Of(googleName).Classify(err.Error()))
				return
			}
			require.NoError(t, err)
			require.Equal(t, "p1", credential.ProjectID)
		})
	}
	none := &googleCompute{connect: func(context.Context) (*compute.Service, string, error) { return nil, "", nil }}
	_, _, err := none.open(t.Context())
	require.ErrorContains(t, err, "name a project")
	require.Equal(t, "gce:///", none.Within(t.Context()))
	_, err = (&googleCompute{connect: func(context.Context) (*compute.Service, string, error) { return nil, "", errGoogleKey }}).list(t.Context(), jobrunner.TagMachineUID, "x")
	require.ErrorIs(t, err, errGoogleKey)
	require.Contains(t, machineTags("x"), jobrunner.TagMachineUID)
}
