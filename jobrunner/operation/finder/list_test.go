package finder

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
)

func (a *account) lister(t *testing.T) *ByTag {
	t.Helper()
	return &ByTag{cloud: a.cloud(t)}
}

// taggedJSON is a droplet as the API shows it.
func taggedJSON(id int, created string, tags ...string) map[string]any {
	out := droplet(id, "198.18.0.1")
	out["created_at"], out["tags"] = created, tags
	return out
}

func TestDigitalOcean_List(t *testing.T) {
	written := clouds.Of("digitalocean").Tags.Items(machineTags("m-uid"))
	a := &account{droplets: []map[string]any{
		taggedJSON(11, "2026-11-01T10:00:00Z", append(written, "mine", "a:b")...),
		taggedJSON(12, "2026-11-01T10:00:00Z", "mine", "drover", "drover-machine-uid"),
		taggedJSON(13, "2026-11-01T10:00:00Z", "drover-cluster-uid:c-uid"),
		taggedJSON(14, "yesterday", "drover-machine-uid:m2"),
		taggedJSON(15, "2026-11-01T10:00:00Z", "drover-machine-uid:"),
		taggedJSON(14, "yesterday", "drover-machine-uid:m2"),
	}, gpus: []map[string]any{taggedJSON(16, "2026-11-01T10:00:00Z"), taggedJSON(17, "2026-11-01T10:00:00Z", "drover-machine-uid:m3")}}
	found, err := a.lister(t).List(t.Context())
	require.NoError(t, err)
	for i := range found {
		found[i].words = nil // how they are read is TestMachine_Owns_words
	}
	require.Equal(t, []Server{
		{ID: "11", Name: "pool-1", Tags: machineTags("m-uid"), Created: time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC),
			Record: map[string]any{"DropletID": 11, "DropletName": "pool-1", "MachineName": "pool-1", "Region": "fra1", "IPAddress": "198.18.0.1"}},
		{ID: "14", Name: "pool-1", Tags: map[string]string{jobrunner.TagMachineUID: "m2"},
			Record: map[string]any{"DropletID": 14, "DropletName": "pool-1", "MachineName": "pool-1", "Region": "fra1", "IPAddress": "198.18.0.1"}},
		{ID: "17", Name: "pool-1", Tags: map[string]string{jobrunner.TagMachineUID: "m3"}, Created: time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC),
			Record: map[string]any{"DropletID": 17, "DropletName": "pool-1", "MachineName": "pool-1", "Region": "fra1", "IPAddress": "198.18.0.1"}},
	}, found, "only what names a machine, once, with GPUs and without; an age that is not known is none")
}

// A list that ends early would make live servers look gone.
func TestDigitalOcean_List_isWholeOrFails(t *testing.T) {
	_, err := (&account{status: http.StatusTooManyRequests}).lister(t).List(t.Context())
	require.ErrorContains(t, err, "429")
	endless := &account{}
	for id := range maxPages + 1 {
		endless.droplets = append(endless.droplets, taggedJSON(id+1, ""))
	}
	_, err = endless.lister(t).List(t.Context())
	require.ErrorIs(t, err, errTooMany)
	_, err = (&account{status: http.StatusNotFound}).lister(t).List(t.Context())
	require.Error(t, err, "an address that is no API has no servers to tell of")
}

func TestDigitalOcean_List_remove(t *testing.T) {
	a := &account{}
	ours := map[string]string{jobrunner.TagMachineUID: "m-uid"}
	require.NoError(t, a.lister(t).Remove(t.Context(), Server{ID: "11", Tags: ours}))
	require.Equal(t, []string{"/v2/droplets/11"}, a.deleted)
	require.ErrorContains(t, a.lister(t).Remove(t.Context(), Server{ID: "../11", Tags: ours}), "not a number")
}

func TestListerFor(t *testing.T) {
	for _, name := range driver.BuiltinNames() {
		lister := ListerFor(name, map[string]any{})
		require.Equal(t, clouds.Of(name).Lists, lister != nil, name)
		if lister != nil {
			require.NotEmpty(t, clouds.Of(name).Tags.Flag, "%s: a server that is listed by its tags must get them", name)
		}
	}
	require.Nil(t, ListerFor("acme", nil))
	require.Empty(t, ExternalFlags("digitalocean"))
	for _, p := range thirdParties {
		needed := clouds.Of(p.driver).Finder.Needs
		require.NotNil(t, ListerFor(p.driver, map[string]any{ExternalFlags(p.driver)[0].Name: "t"}))
		require.Contains(t, needed, ExternalFlags(p.driver)[0].Name)
		require.NotNil(t, For(p.driver, map[string]any{needed[0]: "t", needed[1]: nil}))
		require.Nil(t, For(p.driver, map[string]any{needed[0]: "t"}), "a driver of that name which does not tag")
	}
}

// TestPairTags: whatever a driver's flag makes of our keys and values, they are read back.
func TestPairTags(t *testing.T) {
	tags := jobrunner.Tags(jobrunner.MachineRef{Namespace: "team", Name: "pool-1", UID: uidA, ClusterName: "c1", ClusterUID: uidB, Management: uidA})
	for _, name := range []string{"digitalocean", "amazonec2", "azure", "google", "vmwarevsphere", "hetzner", "linode", "vultr"} {
		flag := clouds.Of(name).Tags
		if flag.Form == clouds.Words || flag.Form == clouds.WordList {
			require.Equal(t, tags, wordTags(name, flag.Items(tags)), name)
			continue
		}
		pairs := map[string]string{}
		items := flag.Items(tags)
		for at := 0; at < len(items); at++ {
			key, value, one := strings.Cut(items[at], "=")
			if !one {
				at++
				value = items[at]
			}
			pairs[key] = value
		}
		require.Equal(t, tags, pairTags(name, pairs), name)
	}
	require.Nil(t, pairTags("google", map[string]string{"drover-cluster-uid": "x"}), "it names no machine")
	require.Nil(t, wordTags("digitalocean", nil))
	cut := wordTags("linode", clouds.Of("linode").Tags.Items(jobrunner.Tags(jobrunner.MachineRef{Namespace: "a-namespace-with-a-name", Name: "a-machine-with-a-long-name", UID: uidA})))
	require.Equal(t, map[string]string{jobrunner.TagMachineUID: uidA}, cut, "what may have lost its end says nothing")
}

// TestOrphansPage compares the table of docs/orphans.md with what is known here.
func TestOrphansPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/orphans.md")
	require.NoError(t, err)
	for _, name := range driver.BuiltinNames() {
		require.Contains(t, string(page), "| "+strings.Join(capabilities(name), " | ")+" |")
	}
}

// capabilities are what a driver's row begins with: its name, how a lost server is found, how all are listed, whether they
// can be removed.
func capabilities(name string) []string {
	p := clouds.Of(name)
	find, list, remove := "no: `ServerMayExist`", "no: its servers carry no tag", "no"
	switch {
	case p.NoServer:
		return []string{name, "makes no server", "–", "–"}
	case clouds.Of(name).Finder.Kind == clouds.ByTag:
		find = "by `" + p.Tags.Flag + "`"
	case clouds.Of(name).Finder.Kind == clouds.ByNameAndKey:
		find = "by name and SSH key"
	case p.ByName:
		find = "by name, by the driver"
	}
	if clouds.Of(name).Lists {
		list, remove = "yes, by `"+p.Tags.Flag+"`", "yes"
	}
	return []string{name, find, list, remove}
}
