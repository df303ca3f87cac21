package fault_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/fault"
)

// effectsAsSent are the constructors' effects as the admin endpoint takes them.
func effectsAsSent() map[string]struct {
	effect fault.Effect
	json   string
} {
	return map[string]struct {
		effect fault.Effect
		json   string
	}{
		"slow":          {fault.Slow(time.Second), `{"latency":1000000000}`},
		"unauthorized":  {fault.Unauthorized(), `{"status":401}`},
		"refused":       {fault.Refused("no"), `{"status":422,"message":"no"}`},
		"quota":         {fault.Quota(), `{"status":422,"message":"creating this/these droplet(s) will exceed your droplet limit"}`},
		"rate limited":  {fault.RateLimited(3 * time.Second), `{"status":429,"retryAfter":3000000000}`},
		"error before":  {fault.ServerError(502), `{"status":502}`},
		"error after":   {fault.ServerErrorAfter(503), `{"status":503,"after":true}`},
		"answer lost":   {fault.AnswerLost(), `{"drop":true,"after":true}`},
		"lost before":   {fault.ConnectionLost(), `{"drop":true}`},
		"slow boot":     {fault.SlowBoot(time.Second), `{"boot":{"delay":1000000000}}`},
		"never boots":   {fault.NeverBoots(), `{"boot":{"never":true}}`},
		"offline":       {fault.Offline(), `{"boot":{"offline":true}}`},
		"vanishes":      {fault.Vanishes(time.Second), `{"boot":{"vanishAfter":1000000000}}`},
		"no address":    {fault.Effect{Boot: &fault.Boot{NoAddress: true}}, `{"boot":{"noAddress":true}}`},
		"slow and lost": {fault.Effect{Latency: 1, Drop: true}, `{"latency":1,"drop":true}`},
	}
}

func TestEffectsTravelAsJSON(t *testing.T) {
	for name, test := range effectsAsSent() {
		t.Run(name, func(t *testing.T) {
			encoded, err := json.Marshal(test.effect)
			require.NoError(t, err)
			require.JSONEq(t, test.json, string(encoded))
			var back fault.Effect
			require.NoError(t, json.Unmarshal(encoded, &back))
			require.Equal(t, test.effect, back)
		})
	}
}

func TestEveryEffectIsARule(t *testing.T) {
	for name, test := range effectsAsSent() {
		t.Run(name, func(t *testing.T) {
			set := fault.NewSet()
			id, err := set.Add(fault.Rule{Match: fault.CreateDroplet, Effect: test.effect})
			require.NoError(t, err)
			hits := set.Apply(request("POST", "/v2/droplets"))
			require.Len(t, hits, 1)
			require.Equal(t, id, hits[0].Rule)
			require.Equal(t, test.effect, hits[0].Effect)
		})
	}
}

func TestNamedPatternsMatchTheirRequests(t *testing.T) {
	requests := map[string]fault.Request{
		"create droplet": request("POST", "/v2/droplets"),
		"get droplet":    request("GET", "/v2/droplets/7"),
		"list droplets":  request("GET", "/v2/droplets"),
		"delete droplet": request("DELETE", "/v2/droplets/7"),
		"delete by tag":  request("DELETE", "/v2/droplets"),
		"power droplet":  request("POST", "/v2/droplets/7/actions"),
		"create key":     request("POST", "/v2/account/keys"),
		"delete key":     request("DELETE", "/v2/account/keys/aa:bb"),
		"root":           request("GET", "/"),
	}
	everything := make([]string, 0, len(requests))
	for name := range requests {
		everything = append(everything, name)
	}
	for pattern, want := range map[string][]string{
		fault.CreateDroplet: {"create droplet"},
		fault.GetDroplet:    {"get droplet"},
		fault.DeleteDroplet: {"delete droplet"},
		fault.CreateKey:     {"create key"},
		fault.DeleteKey:     {"delete key"},
		fault.AnyRequest:    everything,
	} {
		t.Run(pattern, func(t *testing.T) {
			set := fault.NewSet()
			_, err := set.Add(fault.Rule{Match: pattern, Effect: fault.Quota()})
			require.NoError(t, err)
			var matched []string
			for name, r := range requests {
				if len(set.Apply(r)) > 0 {
					matched = append(matched, name)
				}
			}
			require.ElementsMatch(t, want, matched)
		})
	}
}
