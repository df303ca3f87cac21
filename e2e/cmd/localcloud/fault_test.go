package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/fault"
)

// effectCases are all effects by what is typed.
func effectCases() map[string]fault.Effect {
	return map[string]fault.Effect{
		"slow --delay 2s":         {Latency: 2 * time.Second},
		"unauthorized":            {Status: http.StatusUnauthorized},
		"refused --message no":    {Status: http.StatusUnprocessableEntity, Message: "no"},
		"refused":                 {Status: http.StatusUnprocessableEntity},
		"quota":                   fault.Quota(),
		"rate-limited":            {Status: http.StatusTooManyRequests},
		"rate-limited --delay 1m": {Status: http.StatusTooManyRequests, RetryAfter: time.Minute},
		"status":                  {Status: http.StatusInternalServerError},
		"status --status 503 --after --message no": {Status: http.StatusServiceUnavailable, After: true, Message: "no"},
		"answer-lost":          {Drop: true, After: true},
		"connection-lost":      {Drop: true},
		"slow-boot --delay 1h": {Boot: &fault.Boot{Delay: time.Hour}},
		"never-boots":          {Boot: &fault.Boot{Never: true}},
		"offline":              {Boot: &fault.Boot{Offline: true}},
		"no-address":           {Boot: &fault.Boot{NoAddress: true}},
		"vanishes --delay 1ms": {Boot: &fault.Boot{VanishAfter: time.Millisecond}},
	}
}

func TestEveryEffectReachesTheCloud(t *testing.T) {
	b := newBench(t)
	tested := map[string]bool{}
	for line, want := range effectCases() {
		t.Run(line, func(t *testing.T) {
			args := strings.Fields(line)
			require.Equal(t, "one\n", b.prints(t, append([]string{"fault", "add", "--id", "one"}, args...)...))
			var status fault.Status
			require.NoError(t, json.Unmarshal([]byte(b.prints(t, "fault", "ls")), &status))
			require.Equal(t, fault.Rule{ID: "one", Match: fault.CreateDroplet, Effect: want}, status.Rule)
			require.Empty(t, b.prints(t, "fault", "clear", "one"))
			require.Empty(t, b.prints(t, "fault", "ls"))
		})
		tested[strings.Fields(line)[0]] = true
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(effectFlags{}.effects())), slices.Collect(maps.Keys(tested)))
}

func TestEveryLimitOfAFaultReachesTheCloud(t *testing.T) {
	b := newBench(t)
	b.prints(t, "fault", "add", "unauthorized", "--id", "x", "--match", "GET /v2/**", "--name", "web-*", "--token", "demo",
		"--skip", "2", "--count", "3", "--probability", "0.5", "--seed", "7")
	var status fault.Status
	require.NoError(t, json.Unmarshal([]byte(b.prints(t, "fault", "ls")), &status))
	require.Equal(t, fault.Rule{
		ID: "x", Match: "GET /v2/**", Name: "web-*", Token: "demo", Skip: 2, Count: 3, Probability: 0.5, Seed: 7, Effect: fault.Unauthorized(),
	}, status.Rule)
}

func TestFaultsThatWouldDoNothingAreRefused(t *testing.T) {
	b := newBench(t)
	for line, want := range map[string]string{
		"nonsense":                        `there is no effect "nonsense"; there are answer-lost, connection-lost, never-boots, no-address, offline, quota, rate-limited, refused, slow, slow-boot, status, unauthorized, vanishes`,
		"Quota":                           `there is no effect "Quota"; there are `,
		"slow":                            "the effect slow needs --delay",
		"slow-boot":                       "the effect slow-boot needs --delay",
		"vanishes":                        "the effect vanishes needs --delay",
		"quota --message no":              "--message says nothing about the effect quota",
		"offline --delay 1s":              "--delay says nothing about the effect offline",
		"refused --status 500":            "--status says nothing about the effect refused",
		"answer-lost --after":             "--after says nothing about the effect answer-lost",
		"slow --delay 0s":                 "asking local cloud: checking fault: it has no effect",
		"slow --delay -1s":                "asking local cloud: checking fault: times cannot be negative",
		"vanishes --delay 0s":             "asking local cloud: checking fault: boot says nothing that goes wrong",
		"status --status 200":             "asking local cloud: checking fault: 200 is no HTTP status of an error",
		"status --status 999":             "asking local cloud: checking fault: 999 is no HTTP status of an error",
		"quota --probability 1.5":         "asking local cloud: checking fault: probability is not between 0 and 1",
		"quota --probability NaN":         "",
		"quota --count -1":                "asking local cloud: checking fault: skip and count cannot be negative",
		"quota --skip -1":                 "asking local cloud: checking fault: skip and count cannot be negative",
		"quota --seed -1":                 `invalid argument "-1" for "--seed" flag`,
		"quota --match droplets":          `asking local cloud: checking fault: match "droplets" is not of the form "METHOD /path"`,
		"quota --match post_/v2/droplets": `asking local cloud: checking fault: match "post_/v2/droplets" is not of the form "METHOD /path"`,
		"quota --name [":                  `asking local cloud: checking fault: pattern "[": syntax error in pattern`,
		"slow --delay soon":               `invalid argument "soon" for "--delay" flag`,
		"status --status five":            `invalid argument "five" for "--status" flag`,
	} {
		t.Run(line, func(t *testing.T) {
			require.Contains(t, b.fails(t, append([]string{"fault", "add"}, strings.Fields(line)...)...), want)
		})
	}
	require.Empty(t, b.prints(t, "fault", "ls"))
}

func TestFaultsAreAppliedCountedAndCleared(t *testing.T) {
	b := newBench(t)
	b.prints(t, "fault", "add", "quota", "--count", "1", "--id", "full", "--name", "web-*")
	b.prints(t, "fault", "add", "status", "--status", "503", "--id", "down", "--name", "db-*", "--token", cloudToken)
	ask := func(name string) int {
		_, response, _ := b.godo.Droplets.Create(t.Context(), &godo.DropletCreateRequest{
			Name: name, Region: "nyc3", Size: "s-1vcpu-1gb", Image: godo.DropletCreateImage{Slug: "debian-12-x64"},
		})
		require.NotNil(t, response)
		return response.StatusCode
	}
	require.Equal(t, http.StatusUnprocessableEntity, ask("web-1"))
	require.Equal(t, http.StatusAccepted, ask("web-1"), "it was for once")
	require.Equal(t, http.StatusServiceUnavailable, ask("db-1"))
	require.Equal(t, http.StatusServiceUnavailable, ask("db-2"))
	golden(t, "fault-ls.txt", b.stable(b.prints(t, "fault", "ls")))
	golden(t, "fault-hits.txt", b.stable(b.prints(t, "fault", "hits")))
	require.Equal(t, "the fault to clear has no id; leave it out to clear all", b.fails(t, "fault", "clear", ""))
	require.Equal(t, http.StatusServiceUnavailable, ask("db-2"), "they are all there")
	require.Empty(t, b.prints(t, "fault", "clear"))
	require.Equal(t, http.StatusAccepted, ask("db-1"))
	require.Empty(t, b.prints(t, "fault", "ls"))
}

func TestDetailsNameEffectsThatExist(t *testing.T) {
	for name, effects := range details() {
		for _, effect := range effects {
			require.Contains(t, effectFlags{}.effects(), effect, name)
		}
	}
}
