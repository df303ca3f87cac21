package finder

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/go-autorest/autorest/azure"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/jobrunner"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

const (
	azureSubscription = "5a5b5c5d-0000-0000-0000-000000000001"
	azureTenant       = "7a7b7c7d-0000-0000-0000-000000000002"
	azureSecret       = "MARKER-client-secret"
	azureMachines     = "/providers/Microsoft.Compute/virtualMachines"
)

// armSubscription is a subscription in the shapes of the Azure Resource Manager API: Compute 2019-12-01 and Resources
// 2019-05-01, nextLink, Azure-AsyncOperation, behind the token endpoint of a service principal. Its pages have one item.
type armSubscription struct {
	*testing.T
	machines []map[string]any
	created  map[string]string
	refuse   map[string]refusal
	endless  bool
	// outcome is how a removal ends.
	outcome string

	requests []string
	logins   int
	address  string
}

// armMachine is a virtual machine as the API shows it.
func armMachine(group, name string, tags map[string]string, state, key string) map[string]any {
	return map[string]any{
		"id":   "/subscriptions/" + azureSubscription + "/resourceGroups/" + group + azureMachines + "/" + name,
		"name": name, "type": "Microsoft.Compute/virtualMachines", "location": "westus", "tags": tags, "zones": []string{"2"},
		"properties": map[string]any{"vmId": "x", "provisioningState": state, "osProfile": map[string]any{"computerName": name,
			"linuxConfiguration": map[string]any{"ssh": map[string]any{"publicKeys": []map[string]string{{"path": "/home/u/.ssh/authorized_keys", "keyData": key}}}}}},
	}
}

func armError(status int, code, message string) refusal {
	body, _ := json.Marshal(map[string]any{"error": map[string]string{"code": code, "message": message}})
	return refusal{status, string(body)}
}

func (s *armSubscription) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	for part, refused := range s.refuse {
		if strings.HasPrefix(r.Method+" "+r.URL.Path, part) {
			w.WriteHeader(refused.status)
			_, _ = fmt.Fprint(w, refused.body)
			return
		}
	}
	if r.URL.Path == "/"+azureTenant+"/oauth2/token" {
		s.login(w, r)
		return
	}
	if r.Header.Get("Authorization") != "Bearer eyJ0.token" {
		s.Errorf("no token in %s %s", r.Method, r.URL)
	}
	s.serve(w, r)
}

func (s *armSubscription) login(w http.ResponseWriter, r *http.Request) {
	s.logins++
	if r.FormValue("grant_type") != "client_credentials" || r.FormValue("client_id") != "client" || r.FormValue("client_secret") != azureSecret ||
		r.FormValue("resource") != s.address+"/" {
		s.Errorf("a login of no use: %v", r.Form)
	}
	expires := strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)
	_, _ = fmt.Fprintf(w, `{"token_type":"Bearer","expires_in":"3599","ext_expires_in":"3599","expires_on":%q,"not_before":"0","resource":"x","access_token":"eyJ0.token"}`, expires)
}

func (s *armSubscription) serve(w http.ResponseWriter, r *http.Request) {
	root := "/subscriptions/" + azureSubscription
	version := map[bool]string{true: "2019-05-01", false: "2019-12-01"}[r.URL.Path == root+"/resources"]
	group, name := "", ""
	if rest, grouped := strings.CutPrefix(r.URL.Path, root+"/resourceGroups/"); grouped {
		group, name, _ = strings.Cut(rest, azureMachines)
	}
	switch {
	case r.URL.Path == "/operations/1":
		_, _ = fmt.Fprintf(w, `{"name":"1","status":%q,"error":{"code":"InternalExecutionError","message":"in words"}}`, s.outcome)
		return
	case r.URL.Query().Get("api-version") != version:
		s.Errorf("version %s of %s", r.URL.Query().Get("api-version"), r.URL.Path)
	case r.URL.Path == root+azureMachines, group != "" && name == "":
		s.page(w, r, slices.DeleteFunc(slices.Clone(s.machines), func(vm map[string]any) bool {
			return group != "" && !strings.Contains(strings.ToLower(vm["id"].(string)), "/resourcegroups/"+strings.ToLower(group)+"/")
		}))
	case r.URL.Path == root+"/resources":
		s.resources(w, r)
	case group != "":
		s.one(w, r)
	default:
		s.Errorf("unexpected %s %s", r.Method, r.URL)
	}
}

func (s *armSubscription) page(w http.ResponseWriter, r *http.Request, all []map[string]any) {
	at, _ := strconv.Atoi(r.URL.Query().Get("$skiptoken"))
	all = append([]map[string]any{}, all...)
	answer := map[string]any{"value": all[min(at, len(all)):min(at+1, len(all))]}
	if at+1 < len(all) || s.endless {
		next := *r.URL
		query := next.Query()
		query.Set("$skiptoken", strconv.Itoa(at+1))
		next.RawQuery = query.Encode()
		answer["nextLink"] = s.address + next.String()
		if s.endless && at >= len(all) {
			answer["value"] = all[:1]
		}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *armSubscription) resources(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("$filter") != "resourceType eq 'Microsoft.Compute/virtualMachines'" || r.URL.Query().Get("$expand") != "createdTime" {
		s.Errorf("it asks for too much: %s", r.URL)
	}
	var all []map[string]any
	for _, vm := range s.machines {
		resource := map[string]any{"id": strings.ToUpper(vm["id"].(string)), "name": vm["name"], "type": vm["type"], "location": "westus"}
		if created := s.created[vm["name"].(string)]; created != "" {
			resource["createdTime"] = created
		}
		all = append(all, resource)
	}
	s.page(w, r, all)
}

func (s *armSubscription) one(w http.ResponseWriter, r *http.Request) {
	at := slices.IndexFunc(s.machines, func(vm map[string]any) bool { return strings.EqualFold(vm["id"].(string), r.URL.Path) })
	switch {
	case at < 0:
		refused := armError(404, "ResourceNotFound", "The Resource 'Microsoft.Compute/virtualMachines/x' under resource group 'rg1' was not found.")
		w.WriteHeader(refused.status)
		_, _ = fmt.Fprint(w, refused.body)
	case r.Method == http.MethodGet:
		_ = json.NewEncoder(w).Encode(s.machines[at])
	case r.Method == http.MethodDelete:
		if s.outcome == "Succeeded" {
			s.machines = slices.Delete(s.machines, at, at+1)
		}
		w.Header().Set("Azure-AsyncOperation", s.address+"/operations/1")
		w.WriteHeader(http.StatusAccepted)
	}
}

func (s *armSubscription) azure() *azureCompute {
	s.Helper()
	server := httptest.NewServer(s)
	s.Cleanup(server.Close)
	s.address = server.URL
	access := azureAccess{
		environment:  azure.Environment{ResourceManagerEndpoint: server.URL + "/", ActiveDirectoryEndpoint: server.URL + "/"},
		subscription: azureSubscription, tenant: azureTenant, client: "client", secret: azureSecret, pause: time.Millisecond,
	}
	out := newAzure(defaults(s.T, azureName, map[string]any{"azure-subscription-id": azureSubscription, "azure-resource-group": "rg1"}))
	out.connect = access.connect
	return out
}

func newARM(t *testing.T) *armSubscription {
	t.Helper()
	ours, others := pairsOf(azureName, "m-uid"), pairsOf(azureName, "other")
	return &armSubscription{T: t, outcome: "Succeeded", refuse: map[string]refusal{}, created: map[string]string{"pool-1": "2026-11-01T10:00:00.1234567Z", "pool-4": "2026-11-02T10:00:00Z"},
		machines: []map[string]any{
			armMachine("rg1", "pool-2", others, "Succeeded", ourKey), armMachine("RG1", "pool-1", ours, "Succeeded", ourKey),
			armMachine("rg1", "pool-3", map[string]string{"mine": "yes"}, "Succeeded", ourKey), armMachine("rg2", "pool-4", others, "Succeeded", ourKey),
			armMachine("rg1", "pool-5", nil, "Succeeded", ourKey),
		}}
}

func TestAzure_Find(t *testing.T) {
	subscription := newARM(t)
	finder, _ := impatient(t, azureName, subscription.azure())
	found, err := finder.Find(t.Context(), sought("m-uid"))
	require.NoError(t, err)
	require.Equal(t, []Server{{ID: subscription.machines[1]["id"].(string), Name: "pool-1", Record: map[string]any{
		"MachineName": "pool-1", "SubscriptionID": azureSubscription, "ResourceGroup": "RG1", "AvailabilityZone": "2"}}}, plain(found))
	require.Equal(t, 1, subscription.logins)
	for _, request := range subscription.requests[1:] {
		require.Equal(t, "GET /subscriptions/"+azureSubscription+"/resourceGroups/rg1"+azureMachines, request, "Compute itself, and only the machine's group")
	}
	found, err = finder.Find(t.Context(), lost("nobody"))
	require.NoError(t, err)
	require.Empty(t, found)
	subscription.refuse["GET /subscriptions"] = armError(404, "ResourceGroupNotFound", "Resource group 'rg1' could not be found.")
	found, err = finder.Find(t.Context(), lost("m-uid"))
	require.NoError(t, err, "the driver makes the group first")
	require.Empty(t, found)
	subscription.refuse, subscription.machines = nil, nil
	found, err = finder.Find(t.Context(), lost("m-uid"))
	require.NoError(t, err, "an empty group")
	require.Empty(t, found)
}

func TestAzure_Find_unfinished(t *testing.T) {
	for name, c := range map[string]struct {
		state, key string
		want       bool
	}{
		"ready": {"Succeeded", ourKey, false}, "being made": {"Creating", ourKey, false}, "being changed": {"Updating", ourKey, false},
		"failed": {"Failed", ourKey, true}, "being removed": {"Deleting", ourKey, true}, "another's key": {"Succeeded", othersKey, true},
	} {
		t.Run(name, func(t *testing.T) {
			subscription := newARM(t)
			subscription.machines = []map[string]any{armMachine("rg1", "pool-1", pairsOf(azureName, "m-uid"), c.state, c.key)}
			finder, _ := impatient(t, azureName, subscription.azure())
			found, err := finder.Find(t.Context(), sought("m-uid"))
			require.NoError(t, err)
			require.Len(t, found, 1)
			require.Equal(t, c.want, found[0].Unfinished)
		})
	}
	subscription := newARM(t)
	delete(subscription.machines[1], "properties")
	subscription.machines[0]["id"] = "no id of Azure's"
	finder, _ := impatient(t, azureName, subscription.azure())
	found, err := finder.Find(t.Context(), sought("m-uid"))
	require.NoError(t, err)
	require.Empty(t, found[0].Unfinished, "what is not told is not held against it")
}

func TestAzure_List(t *testing.T) {
	subscription := newARM(t)
	found, err := ByTag{cloud: subscription.azure()}.List(t.Context())
	require.NoError(t, err)
	names := map[string]time.Time{}
	for _, server := range found {
		names[server.Name] = server.Created.UTC()
	}
	require.Equal(t, map[string]time.Time{
		"pool-1": time.Date(2026, 11, 1, 10, 0, 0, 123456700, time.UTC), "pool-2": {}, "pool-4": time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC),
	}, names, "of all groups; whose age Resource Manager does not know yet has none")
	require.Equal(t, "azure:///subscriptions/"+azureSubscription+"/", subscription.azure().Within(t.Context()))
	subscription.machines = subscription.machines[4:]
	found, err = ByTag{cloud: subscription.azure()}.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, found)
}

func TestAzure_isWholeOrFails(t *testing.T) {
	for name, c := range map[string]struct {
		refusal
		class string
	}{
		"throttled":          {armError(429, "TooManyRequests", "The request is being throttled."), rkev1.ClassThrottled},
		"not allowed":        {armError(403, "AuthorizationFailed", "The client does not have authorization to perform action"), rkev1.ClassUnauthorized},
		"no such place":      {armError(404, "SubscriptionNotFound", "The subscription could not be found."), rkev1.ClassUnauthorized},
		"an accident":        {armError(500, "InternalServerError", "Encountered internal server error."), rkev1.ClassTransient},
		"a proxy's page":     {refusal{200, "<html><body>Please log in</body></html>"}, ""},
		"a page of no group": {refusal{404, "<html>not found</html>"}, ""},
		"nothing in it":      {refusal{200, "{}"}, ""},
		"no answer":          {refusal{200, ""}, ""},
		"half an answer":     {refusal{200, `{"value":[`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			subscription := newARM(t)
			subscription.refuse["GET /subscriptions"] = c.refusal
			finder, waits := impatient(t, azureName, subscription.azure())
			found, err := finder.Find(t.Context(), lost("m-uid"))
			require.Error(t, err)
			require.Empty(t, found)
			require.Empty(t, *waits)
			require.LessOrEqual(t, len(subscription.requests), azureRetries+2, "it gives up")
			if c.class != "" {
				requireClass(t, azureName, c.class, err)
			}
			_, err = ByTag{cloud: subscription.azure()}.List(t.Context())
			require.Error(t, err)
		})
	}
}

func TestAzure_login_fails(t *testing.T) {
	subscription := newARM(t)
	subscription.refuse["POST /"+azureTenant] = refusal{401, `{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret provided."}`}
	_, err := ByTag{cloud: subscription.azure()}.List(t.Context())
	requireClass(t, azureName, rkev1.ClassUnauthorized, err)
	require.NotContains(t, err.Error(), azureSecret)
	for flag, value := range map[string]string{"azure-environment": "AzureMoonCloud", "azure-client-secret": ""} {
		values := map[string]any{"azure-subscription-id": "s", "azure-client-id": "c", "azure-client-secret": azureSecret, "azure-tenant-id": "t"}
		values[flag] = value
		_, err := newAzure(defaults(t, azureName, values)).list(t.Context(), jobrunner.TagMachineUID, "m-uid")
		requireClass(t, azureName, rkev1.ClassInvalid, err)
		require.NotContains(t, err.Error(), azureSecret)
	}
	api, err := newAzure(defaults(t, azureName, map[string]any{"azure-subscription-id": "s", "azure-client-id": "c", "azure-client-secret": "x", "azure-tenant-id": "t"})).connect(t.Context())
	require.NoError(t, err)
	require.Equal(t, "https://management.azure.com/", api.machines.BaseURI)
}

func TestAzure_List_fails(t *testing.T) {
	subscription := newARM(t)
	subscription.refuse["GET /subscriptions/"+azureSubscription+"/resources"] = armError(403, "AuthorizationFailed", "x")
	found, err := ByTag{cloud: subscription.azure()}.List(t.Context())
	require.ErrorContains(t, err, "reading when virtual machines were created")
	require.Empty(t, found)
	subscription.refuse["GET /subscriptions/"+azureSubscription+"/resources"] = refusal{200, "{}"}
	_, err = ByTag{cloud: subscription.azure()}.List(t.Context())
	require.ErrorIs(t, err, errNoAzureList)
	endless := newARM(t)
	endless.endless = true
	_, err = endless.azure().list(t.Context(), jobrunner.TagMachineUID, "m-uid")
	require.ErrorIs(t, err, errTooMany)
}

func TestAzure_Remove(t *testing.T) {
	subscription := newARM(t)
	finder, _ := impatient(t, azureName, subscription.azure())
	ours, others := subscription.machines[1]["id"].(string), subscription.machines[0]["id"].(string)
	for _, id := range []string{others, subscription.machines[2]["id"].(string)} {
		require.ErrorIs(t, finder.Remove(t.Context(), listed(id, "m-uid")), errNotOurs)
	}
	for _, id := range []string{"pool-1", strings.ReplaceAll(ours, azureSubscription, "another"), strings.ReplaceAll(ours, "virtualMachines", "disks")} {
		require.ErrorContains(t, finder.Remove(t.Context(), listed(id, "m-uid")), "does not belong to a virtual machine of the subscription")
	}
	require.Len(t, subscription.machines, 5)
	require.NoError(t, finder.Remove(t.Context(), listed(ours, "m-uid")))
	require.Len(t, subscription.machines, 4)
	require.Contains(t, subscription.requests, "GET /operations/1", "it waits until the machine is gone")
	require.NoError(t, finder.Remove(t.Context(), listed(ours, "m-uid")), "gone is gone")
	require.NoError(t, finder.Sweep(t.Context(), sought("m-uid")))
}

func TestAzure_Remove_fails(t *testing.T) {
	subscription := newARM(t)
	finder, _ := impatient(t, azureName, subscription.azure())
	ours := listed(subscription.machines[1]["id"].(string), "m-uid")
	subscription.outcome = "Failed"
	require.ErrorContains(t, finder.Remove(t.Context(), ours), "InternalExecutionError")
	subscription.refuse["DELETE /"] = armError(409, "ScopeLocked", "The scope cannot perform delete operation because following scope(s) are locked")
	require.ErrorContains(t, finder.Remove(t.Context(), ours), "ScopeLocked")
	subscription.refuse["DELETE /"] = armError(404, "ResourceNotFound", "x")
	require.NoError(t, finder.Remove(t.Context(), ours), "somebody was faster")
	subscription.refuse["GET /"] = refusal{404, "<html>not found</html>"}
	require.Error(t, finder.Remove(t.Context(), ours), "a page that knows of no machines")
	broken := &azureCompute{connect: func(context.Context) (azureAPI, error) { return azureAPI{}, errNoAzureList }, subscription: azureSubscription}
	require.ErrorIs(t, ByTag{cloud: broken}.Remove(t.Context(), ours), errNoAzureList)
}
