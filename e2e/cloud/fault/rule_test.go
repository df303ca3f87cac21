package fault_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/fault"
)

// badRules are rules a test author might write by mistake, and what they are told.
func badRules() map[string]struct {
	rule fault.Rule
	want string
} {
	rule := func(match string, effect fault.Effect) fault.Rule { return fault.Rule{Match: match, Effect: effect} }
	quota := fault.Quota()
	return map[string]struct {
		rule fault.Rule
		want string
	}{
		"empty":            {fault.Rule{}, `match "" is not of the form "METHOD /path"`},
		"no method":        {rule("/v2/x", quota), `match "/v2/x" is not of the form "METHOD /path"`},
		"blank method":     {rule(" /v2/x", quota), `match " /v2/x" is not of the form "METHOD /path"`},
		"no path":          {rule("GET ", quota), `match "GET " is not of the form "METHOD /path"`},
		"relative path":    {rule("GET v2/x", quota), `match "GET v2/x" is not of the form "METHOD /path"`},
		"two blanks":       {rule("GET  /v2/x", quota), `match "GET  /v2/x" is not of the form "METHOD /path"`},
		"a whole URL":      {rule("GET https://x/v2", quota), `match "GET https://x/v2" is not of the form "METHOD /path"`},
		"lower case":       {rule("post /v2/droplets", quota), `method "post" is not in upper case`},
		"rest in the path": {rule("GET /v2/**/actions", quota), `in "/v2/**/actions", ** is not the last segment`},
		"rest in a word":   {rule("GET /v2/drop**", quota), `in "/v2/drop**", ** is not the last segment`},
		"bad pattern":      {rule("GET /v2/[", quota), `pattern "/v2/[": syntax error in pattern`},
		"bad name":         {fault.Rule{Match: fault.AnyRequest, Name: "web-[", Effect: quota}, `pattern "web-[": syntax error in pattern`},
		"much probability": {fault.Rule{Match: fault.AnyRequest, Probability: 1.1, Effect: quota}, "probability is not between 0 and 1"},
		"no probability":   {fault.Rule{Match: fault.AnyRequest, Probability: -0.1, Effect: quota}, "probability is not between 0 and 1"},
		"no number":        {fault.Rule{Match: fault.AnyRequest, Probability: math.NaN(), Effect: quota}, "probability is not between 0 and 1"},
		"negative skip":    {fault.Rule{Match: fault.AnyRequest, Skip: -1, Effect: quota}, "skip and count cannot be negative"},
		"negative count":   {fault.Rule{Match: fault.AnyRequest, Count: -1, Effect: quota}, "skip and count cannot be negative"},
		"no effect":        {rule(fault.AnyRequest, fault.Effect{}), "it has no effect"},
		"no such status":   {rule(fault.AnyRequest, fault.ServerError(599)), "599 is no HTTP status of an error"},
		"a success":        {rule(fault.AnyRequest, fault.ServerError(200)), "200 is no HTTP status of an error"},
		"informational":    {rule(fault.AnyRequest, fault.ServerError(100)), "100 is no HTTP status of an error"},
		"negative status":  {rule(fault.AnyRequest, fault.ServerError(-1)), "-1 is no HTTP status of an error"},
		"status and drop":  {rule(fault.AnyRequest, fault.Effect{Status: 500, Drop: true}), "status, drop and boot exclude each other"},
		"drop and boot":    {rule(fault.AnyRequest, fault.Effect{Drop: true, Boot: &fault.Boot{Never: true}}), "status, drop and boot exclude each other"},
		"status and boot":  {rule(fault.AnyRequest, fault.Effect{Status: 500, Boot: &fault.Boot{Never: true}}), "status, drop and boot exclude each other"},
		"after what":       {rule(fault.AnyRequest, fault.Effect{Latency: 1, After: true}), "after needs a status or drop"},
		"after a boot":     {rule(fault.AnyRequest, fault.Effect{Boot: &fault.Boot{Never: true}, After: true}), "after needs a status or drop"},
		"message alone":    {rule(fault.AnyRequest, fault.Effect{Latency: 1, Message: "no"}), "errorID, message and retryAfter need a status"},
		"id of a drop":     {rule(fault.AnyRequest, fault.Effect{Drop: true, ErrorID: "x"}), "errorID, message and retryAfter need a status"},
		"retry of a drop":  {rule(fault.AnyRequest, fault.Effect{Drop: true, RetryAfter: 1}), "errorID, message and retryAfter need a status"},
		"negative latency": {rule(fault.AnyRequest, fault.Slow(-1)), "times cannot be negative"},
		"negative retry":   {rule(fault.AnyRequest, fault.RateLimited(-1)), "times cannot be negative"},
		"negative boot":    {rule(fault.AnyRequest, fault.SlowBoot(-1)), "times cannot be negative"},
		"negative vanish":  {rule(fault.AnyRequest, fault.Vanishes(-1)), "times cannot be negative"},
		"good boot":        {rule(fault.AnyRequest, fault.Effect{Boot: &fault.Boot{}}), "boot says nothing that goes wrong"},
	}
}

func TestAddSaysWhatIsWrongWithARule(t *testing.T) {
	for name, test := range badRules() {
		t.Run(name, func(t *testing.T) {
			set := fault.NewSet()
			id, err := set.Add(test.rule)
			require.EqualError(t, err, "checking fault: "+test.want)
			require.Empty(t, id)
			require.Empty(t, set.List())
			require.Empty(t, set.Apply(request("GET", "/v2/x")))
		})
	}
}

func TestMatchesPartsOfNamesAndPaths(t *testing.T) {
	for name, test := range map[string]struct {
		match, name  string
		method, path string
		hit          bool
	}{
		"part of a segment":        {"GET /v2/droplets/10*", "", "GET", "/v2/droplets/107", true},
		"another part":             {"GET /v2/droplets/10*", "", "GET", "/v2/droplets/117", false},
		"a segment in the middle":  {"POST /v2/droplets/*/actions", "", "POST", "/v2/droplets/7/actions", true},
		"too deep":                 {"POST /v2/droplets/*/actions", "", "POST", "/v2/droplets/7/actions/8", false},
		"the folder of any rest":   {"GET /v2/droplets/**", "", "GET", "/v2/droplets", true},
		"not a longer word":        {"GET /v2/droplets/**", "", "GET", "/v2/droplets-old/7", false},
		"deep in any rest":         {"GET /v2/**", "", "GET", "/v2/a/b/c/d", true},
		"one letter":               {"GET /v2/tags/?", "", "GET", "/v2/tags/x", true},
		"a trailing slash differs": {"GET /v2/tags", "", "GET", "/v2/tags/", false},
		"case matters":             {"GET /v2/Tags", "", "GET", "/v2/tags", false},
		"whole name":               {fault.AnyRequest, "web-1", "GET", "/v2/x", true},
		"name is anchored":         {fault.AnyRequest, "web", "GET", "/v2/x", false},
		"one letter of a name":     {fault.AnyRequest, "web-?", "GET", "/v2/x", true},
		"class of letters":         {fault.AnyRequest, "web-[0-9]", "GET", "/v2/x", true},
	} {
		t.Run(name, func(t *testing.T) {
			set := fault.NewSet()
			_, err := set.Add(fault.Rule{Match: test.match, Name: test.name, Effect: fault.Quota()})
			require.NoError(t, err)
			require.Equal(t, test.hit, len(set.Apply(request(test.method, test.path))) == 1)
		})
	}
}

func TestRulesTravelAsTheyAre(t *testing.T) {
	check := func(text []byte, method, path string) {
		var rule fault.Rule
		if json.Unmarshal(text, &rule) != nil {
			return
		}
		set := fault.NewSet()
		id, err := set.Add(rule)
		if err != nil {
			require.Empty(t, set.List())
			return
		}
		require.NotEmpty(t, id)
		hits := set.Apply(fault.Request{Method: method, Path: path})
		require.LessOrEqual(t, len(hits), 1)
		status := set.List()[0]
		require.Equal(t, len(hits), status.Applied)
		require.LessOrEqual(t, status.Applied, status.Seen)
		encoded, err := json.Marshal(status.Rule)
		require.NoError(t, err)
		var back fault.Rule
		require.NoError(t, json.Unmarshal(encoded, &back))
		require.Equal(t, status.Rule, back)
	}
	check([]byte(`{"match":"POST /v2/droplets","name":"web-*","count":1,"effect":{"status":503,"after":true}}`), "POST", "/v2/droplets")
	check([]byte(`{"match":"* /**","probability":0.5,"seed":7,"effect":{"latency":5}}`), "GET", "")
	check([]byte(`{"match":"GET /v2/[a-","effect":{"drop":true}}`), "GET", "/v2/a")
	check([]byte(`{"match":"GET /**","effect":{"boot":{"never":true}}}`), "GET", "//")
}
