package rest_test

import (
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/rest"
)

var update = flag.Bool("update", false, "write the golden files")

// answers are requests in order, each with its status; the bodies are golden.
func answers() []struct {
	name, method, path, body string
	status                   int
} {
	return []struct {
		name, method, path, body string
		status                   int
	}{
		{"create-key", "POST", "/v2/account/keys", `{"name":"k","public_key":"` + oneKey + `"}`, 201},
		{"list-keys", "GET", "/v2/account/keys", "", 200},
		{"get-key", "GET", "/v2/account/keys/20000001", "", 200},
		{"rename-key", "PUT", "/v2/account/keys/20000001", `{"name":"other"}`, 200},
		{"create-droplet", "POST", "/v2/droplets", `{"name":"web-1","region":"nyc3","size":"c-2","image":139080908,"ssh_keys":[20000001],"ipv6":true,"private_networking":true,"tags":["blue"]}`, 202},
		{"create-droplets", "POST", "/v2/droplets", `{"names":["a","b"],"region":"ams3","size":"s-1vcpu-1gb","image":"ubuntu-24-04-x64","ssh_keys":["20000001"]}`, 202},
		{"get-droplet", "GET", "/v2/droplets/100000001", "", 200},
		{"list-droplets", "GET", "/v2/droplets?per_page=1&page=2", "", 200},
		{"list-droplet-actions", "GET", "/v2/droplets/100000001/actions", "", 200},
		{"get-droplet-action", "GET", "/v2/droplets/100000001/actions/900000001", "", 200},
		{"get-action", "GET", "/v2/actions/900000001", "", 200},
		{"reboot", "POST", "/v2/droplets/100000001/actions", `{"type":"reboot"}`, 201},
		{"get-tag", "GET", "/v2/tags/blue", "", 200},
		{"create-tag", "POST", "/v2/tags", `{"name":"red"}`, 201},
		{"tag", "POST", "/v2/tags/red/resources", `{"resources":[{"resource_id":"100000001","resource_type":"droplet"}]}`, 204},
		{"list-tags", "GET", "/v2/tags", "", 200},
		{"untag", "DELETE", "/v2/tags/red/resources", `{"resources":[{"resource_id":"100000001","resource_type":"droplet"}]}`, 204},
		{"delete-tag", "DELETE", "/v2/tags/red", "", 204},
		{"get-image", "GET", "/v2/images/debian-12-x64", "", 200},
		{"list-regions", "GET", "/v2/regions?per_page=1", "", 200},
		{"list-sizes", "GET", "/v2/sizes?per_page=1", "", 200},
		{"delete-droplet", "DELETE", "/v2/droplets/100000001", "", 204},
		{"delete-by-tag", "DELETE", "/v2/droplets?tag_name=none", "", 204},
		{"delete-key", "DELETE", "/v2/account/keys/20000001", "", 204},
	}
}

// TestEveryAnswer compares whole answers with golden files: what an unmodified
// client reads from them must not change unseen.
func TestEveryAnswer(t *testing.T) {
	a := serve(t, rest.Options{})
	times := regexp.MustCompile(`20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\dZ`)
	for _, test := range answers() {
		got := a.ask(t, test.method, test.path, test.body)
		require.Equal(t, test.status, got.status, "%s: %s", test.name, got.body)
		for _, droplet := range a.account.Droplets("", "") {
			a.account.AwaitBoot(t.Context(), droplet.ID, 10*time.Second)
		}
		if test.status == http.StatusNoContent {
			require.Empty(t, got.body, test.name)
			continue
		}
		body := times.ReplaceAllString(got.body, "2026-01-02T03:04:05Z") + "\n"
		path := filepath.Join("testdata", test.name+".json")
		if *update {
			require.NoError(t, os.MkdirAll("testdata", 0o750))
			require.NoError(t, os.WriteFile(path, []byte(body), 0o600))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.JSONEq(t, string(want), body, test.name)
	}
	require.Len(t, a.account.Droplets("", ""), 2)
	require.Empty(t, a.account.Keys())
}

func TestACreatedDropletIsNewInItsAnswer(t *testing.T) {
	a := serve(t, rest.Options{})
	made, response, err := a.client.Droplets.Create(t.Context(), droplet("web-1"))
	require.NoError(t, err)
	require.Equal(t, "new", made.Status)
	require.True(t, made.Locked)
	require.Empty(t, made.Networks.V4)
	require.Len(t, response.Links.Actions, 1)
	action, _, err := response.Links.Actions[0].Get(t.Context(), a.client)
	require.NoError(t, err)
	require.Equal(t, made.ID, action.ResourceID)
	require.Equal(t, "create", action.Type)
}

func TestManyDropletsHaveAnActionEach(t *testing.T) {
	a := serve(t, rest.Options{})
	made, response, err := a.client.Droplets.CreateMultiple(t.Context(), &godo.DropletMultiCreateRequest{
		Names: []string{"a", "b", "c"}, Region: "nyc3", Size: "c-2", Image: godo.DropletCreateImage{ID: 139080908},
	})
	require.NoError(t, err)
	require.Len(t, made, 3)
	require.Len(t, response.Links.Actions, 3)
	for i, link := range response.Links.Actions {
		action, _, err := link.Get(t.Context(), a.client)
		require.NoError(t, err)
		require.Equal(t, made[i].ID, action.ResourceID)
		require.Equal(t, "debian-12-x64", made[i].Image.Slug)
	}
}

func TestADeletedDropletIsGoneAtOnce(t *testing.T) {
	a := serve(t, rest.Options{})
	for range 3 {
		made, _, err := a.client.Droplets.Create(t.Context(), droplet("web-1"))
		require.NoError(t, err)
		_, err = a.client.Droplets.Delete(t.Context(), made.ID)
		require.NoError(t, err)
		_, response, err := a.client.Droplets.Get(t.Context(), made.ID)
		require.Error(t, err)
		require.Equal(t, http.StatusNotFound, response.StatusCode)
		response, err = a.client.Droplets.Delete(t.Context(), made.ID)
		require.Error(t, err)
		require.Equal(t, http.StatusNotFound, response.StatusCode, "deleting again tells that it is gone")
	}
}
