package cloud_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/fault"
)

// refusal returns the status and message of an API error.
func refusal(t *testing.T, err error) (int, string) {
	t.Helper()
	var answer *godo.ErrorResponse
	require.ErrorAs(t, err, &answer)
	require.NotEmpty(t, answer.RequestID)
	return answer.Response.StatusCode, answer.Message
}

func TestCreateIsRefused(t *testing.T) {
	c, client := start(t, cloud.Options{DropletLimit: 1})
	for name, test := range map[string]struct {
		change  func(*godo.DropletCreateRequest)
		message string
	}{
		"region":    {func(r *godo.DropletCreateRequest) { r.Region = "mars1" }, "invalid region"},
		"size":      {func(r *godo.DropletCreateRequest) { r.Size = "huge" }, "invalid size"},
		"image":     {func(r *godo.DropletCreateRequest) { r.Image.Slug = "dos-6" }, "invalid image"},
		"name":      {func(r *godo.DropletCreateRequest) { r.Name = "a_b" }, "valid hostname"},
		"user data": {func(r *godo.DropletCreateRequest) { r.UserData = strings.Repeat("x", 65537) }, "too long"},
		"tag":       {func(r *godo.DropletCreateRequest) { r.Tags = []string{"a b"} }, "Tag name"},
		"key": {func(r *godo.DropletCreateRequest) { r.SSHKeys = []godo.DropletCreateSSHKey{{ID: 7}} },
			"7 are invalid key identifiers"},
	} {
		t.Run(name, func(t *testing.T) {
			ask := request("web-1")
			test.change(ask)
			_, _, err := client.Droplets.Create(t.Context(), ask)
			status, message := refusal(t, err)
			require.Equal(t, http.StatusUnprocessableEntity, status)
			require.Contains(t, message, test.message)
		})
	}
	require.Empty(t, c.Ledger().Records())

	_, _, err := client.Droplets.Create(t.Context(), request("web-1"))
	require.NoError(t, err)
	_, _, err = client.Droplets.Create(t.Context(), request("web-2"))
	_, message := refusal(t, err)
	require.Equal(t, "creating this/these droplet(s) will exceed your droplet limit", message)
	c.Account().SetDropletLimit(2)
	_, _, err = client.Droplets.Create(t.Context(), request("web-2"))
	require.NoError(t, err)
}

func TestKeys(t *testing.T) {
	_, client := start(t, cloud.Options{})
	ctx := t.Context()
	ask := &godo.KeyCreateRequest{Name: "k", PublicKey: publicKey(t)}
	key, _, err := client.Keys.Create(ctx, ask)
	require.NoError(t, err)
	_, _, err = client.Keys.Create(ctx, ask)
	status, message := refusal(t, err)
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Equal(t, "SSH Key is already in use on your account", message)
	_, _, err = client.Keys.Create(ctx, &godo.KeyCreateRequest{Name: "k", PublicKey: "nonsense"})
	status, _ = refusal(t, err)
	require.Equal(t, http.StatusUnprocessableEntity, status)

	byPrint, _, err := client.Keys.GetByFingerprint(ctx, key.Fingerprint)
	require.NoError(t, err)
	require.Equal(t, key, byPrint)
	renamed, _, err := client.Keys.UpdateByID(ctx, key.ID, &godo.KeyUpdateRequest{Name: "other"})
	require.NoError(t, err)
	require.Equal(t, "other", renamed.Name)
	_, err = client.Keys.DeleteByFingerprint(ctx, key.Fingerprint)
	require.NoError(t, err)
	_, err = client.Keys.DeleteByID(ctx, key.ID)
	status, message = refusal(t, err)
	require.Equal(t, http.StatusNotFound, status)
	require.Equal(t, "The resource you were accessing could not be found.", message)
}

func TestTags(t *testing.T) {
	_, client := start(t, cloud.Options{})
	ctx := t.Context()
	created, _, err := client.Droplets.Create(ctx, request("web-1"))
	require.NoError(t, err)
	_, _, err = client.Tags.Create(ctx, &godo.TagCreateRequest{Name: "blue"})
	require.NoError(t, err)
	resources := []godo.Resource{{ID: godoID(created.ID), Type: godo.DropletResourceType}}
	_, err = client.Tags.TagResources(ctx, "blue", &godo.TagResourcesRequest{Resources: resources})
	require.NoError(t, err)
	tag, _, err := client.Tags.Get(ctx, "blue")
	require.NoError(t, err)
	require.Equal(t, 1, tag.Resources.Droplets.Count)
	found, _, err := client.Droplets.ListByTag(ctx, "blue", nil)
	require.NoError(t, err)
	require.Len(t, found, 1)
	_, err = client.Tags.UntagResources(ctx, "blue", &godo.UntagResourcesRequest{Resources: resources})
	require.NoError(t, err)
	found, _, err = client.Droplets.ListByTag(ctx, "blue", nil)
	require.NoError(t, err)
	require.Empty(t, found)
	_, err = client.Tags.Delete(ctx, "blue")
	require.NoError(t, err)
	tags, _, err := client.Tags.List(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, tags)
}

func godoID(id int) string {
	text, _ := json.Marshal(id)
	return string(text)
}

func TestPagination(t *testing.T) {
	_, client := start(t, cloud.Options{})
	ctx := t.Context()
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		_, _, err := client.Droplets.Create(ctx, request(name))
		require.NoError(t, err)
	}
	var names []string
	opts := &godo.ListOptions{PerPage: 2}
	for {
		droplets, response, err := client.Droplets.List(ctx, opts)
		require.NoError(t, err)
		require.Equal(t, 5, response.Meta.Total)
		for _, droplet := range droplets {
			names = append(names, droplet.Name)
		}
		if response.Links.IsLastPage() {
			break
		}
		current, err := response.Links.CurrentPage()
		require.NoError(t, err)
		opts.Page = current + 1
	}
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, names)
	byName, _, err := client.Droplets.ListByName(ctx, "c", nil)
	require.NoError(t, err)
	require.Len(t, byName, 1)
}

func TestCatalog(t *testing.T) {
	_, client := start(t, cloud.Options{})
	ctx := t.Context()
	info, _, err := client.Account.Get(ctx)
	require.NoError(t, err)
	require.Equal(t, "active", info.Status)
	regions, _, err := client.Regions.List(ctx, nil)
	require.NoError(t, err)
	require.NotEmpty(t, regions)
	sizes, _, err := client.Sizes.List(ctx, nil)
	require.NoError(t, err)
	require.NotEmpty(t, sizes)
	images, _, err := client.Images.ListDistribution(ctx, nil)
	require.NoError(t, err)
	require.NotEmpty(t, images)
	image, _, err := client.Images.GetBySlug(ctx, images[0].Slug)
	require.NoError(t, err)
	require.Equal(t, images[0], *image)
}

func TestTokens(t *testing.T) {
	c, client := start(t, cloud.Options{Tokens: []account.Token{{Name: "second", Secret: "dop_v1_second"}}})
	ctx := t.Context()
	can := func(client *godo.Client) int {
		_, response, err := client.Account.Get(ctx)
		if err != nil {
			_, message := refusal(t, err)
			require.Equal(t, "Unable to authenticate you", message)
		}
		return response.StatusCode
	}
	require.Equal(t, 401, can(c.Client("nonsense")))
	require.Equal(t, 200, can(c.Client("dop_v1_second")))
	require.NoError(t, c.RevokeToken("second"))
	require.Equal(t, 401, can(c.Client("dop_v1_second")))
	require.Equal(t, 200, can(client))
	require.NoError(t, c.RestoreToken("second"))
	require.Equal(t, 200, can(c.Client("dop_v1_second")))
	require.NoError(t, c.ExpireToken("second", time.Now().Add(-time.Second)))
	require.Equal(t, 401, can(c.Client("dop_v1_second")))
	require.Error(t, c.RevokeToken("third"))

	reader, err := c.AddToken("reader", true)
	require.NoError(t, err)
	require.Equal(t, 200, can(c.Client(reader.Secret)))
	_, _, err = c.Client(reader.Secret).Droplets.Create(ctx, request("web-1"))
	status, _ := refusal(t, err)
	require.Equal(t, http.StatusForbidden, status)
}

func TestRateLimit(t *testing.T) {
	_, client := start(t, cloud.Options{RateLimit: 2})
	for want := 1; want >= 0; want-- {
		_, response, err := client.Account.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, response.Limit)
		require.Equal(t, want, response.Remaining)
		require.True(t, response.Reset.After(time.Now()))
	}
	_, response, err := client.Account.Get(t.Context())
	status, message := refusal(t, err)
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Equal(t, "API Rate limit exceeded.", message)
	require.NotEmpty(t, response.Header.Get("Retry-After"))
}

func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		effect fault.Effect
		made   int // droplets that exist afterwards
		check  func(t *testing.T, err error)
	}{
		"401":          {fault.Unauthorized(), 0, expect(401, "Unable to authenticate you")},
		"422":          {fault.Refused("no"), 0, expect(422, "no")},
		"quota":        {fault.Quota(), 0, expect(422, "exceed your droplet limit")},
		"429":          {fault.RateLimited(3 * time.Second), 0, expect(429, "API Rate limit exceeded.")},
		"500 before":   {fault.ServerError(500), 0, expect(500, "Server Error")},
		"503 after":    {fault.ServerErrorAfter(503), 1, expect(503, "Service Unavailable")},
		"502 by name":  {fault.ServerError(502), 0, expect(502, "Bad Gateway")},
		"lost before":  {fault.ConnectionLost(), 0, lost},
		"answer lost":  {fault.AnswerLost(), 1, lost},
		"latency only": {fault.Slow(time.Millisecond), 1, fine},
	} {
		t.Run(name, func(t *testing.T) {
			c, client := start(t, cloud.Options{})
			_, err := c.Faults().Add(fault.Rule{Match: fault.CreateDroplet, Name: "web-*", Count: 1, Effect: test.effect})
			require.NoError(t, err)
			_, _, err = client.Droplets.Create(t.Context(), request("web-1"))
			test.check(t, err)
			require.Len(t, c.Live("droplet"), test.made)
			require.Len(t, c.Faults().Hits(), 1)
			require.Equal(t, "web-1", c.Faults().Hits()[0].Name)
			_, _, err = client.Droplets.Create(t.Context(), request("web-1"))
			require.NoError(t, err, "the fault is spent")
		})
	}
}

func lost(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, io.EOF)
}

func fine(t *testing.T, err error) {
	t.Helper()
	require.NoError(t, err)
}

func expect(status int, text string) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		got, message := refusal(t, err)
		require.Equal(t, status, got)
		require.Contains(t, message, text)
	}
}

func TestRetryAfterIsTold(t *testing.T) {
	c, client := start(t, cloud.Options{})
	_, err := c.Faults().Add(fault.Rule{Match: fault.AnyRequest, Effect: fault.RateLimited(3 * time.Second)})
	require.NoError(t, err)
	_, response, err := client.Account.Get(t.Context())
	require.Error(t, err)
	require.Equal(t, "3", response.Header.Get("Retry-After"))
	require.Equal(t, 0, response.Remaining)
}

func TestBootFaults(t *testing.T) {
	c, client := start(t, cloud.Options{})
	ctx := t.Context()
	for name, effect := range map[string]fault.Effect{
		"never": fault.NeverBoots(), "slow": fault.SlowBoot(50 * time.Millisecond), "vanish": fault.Vanishes(50 * time.Millisecond),
		"silent": {Boot: &fault.Boot{NoAddress: true}},
	} {
		_, err := c.Faults().Add(fault.Rule{Match: fault.CreateDroplet, Name: name, Effect: effect})
		require.NoError(t, err)
	}
	create := func(name string) int {
		created, _, err := client.Droplets.Create(ctx, request(name))
		require.NoError(t, err)
		return created.ID
	}
	never, slow, vanish, silent := create("never"), create("slow"), create("vanish"), create("silent")
	active(t, client, slow)
	require.Empty(t, active(t, client, silent).Networks.V4)
	require.Eventually(t, func() bool {
		_, _, err := client.Droplets.Get(ctx, vanish)
		var answer *godo.ErrorResponse
		return errors.As(err, &answer) && answer.Response.StatusCode == http.StatusNotFound
	}, 10*time.Second, 5*time.Millisecond)
	droplet, _, err := client.Droplets.Get(ctx, never)
	require.NoError(t, err)
	require.Equal(t, "new", droplet.Status)
	for _, id := range []int{never, slow, silent} {
		_, err = client.Droplets.Delete(ctx, id)
		require.NoError(t, err)
	}
	c.AssertNothingLeft(t)
	for _, record := range c.Ledger().Records("droplet") {
		require.Equal(t, record.Name == "vanish", record.Cause == "vanished", record.Name)
	}
}

func TestUnknownPathsAnswerAsTheAPI(t *testing.T) {
	_, client := start(t, cloud.Options{})
	ask, err := client.NewRequest(t.Context(), http.MethodGet, "v2/kubernetes/clusters", nil)
	require.NoError(t, err)
	_, err = client.Do(t.Context(), ask, nil)
	status, message := refusal(t, err)
	require.Equal(t, http.StatusNotFound, status)
	require.Equal(t, "The resource you were accessing could not be found.", message)
}
