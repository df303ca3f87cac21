package fault_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/fault"
)

func request(method, path string) fault.Request {
	return fault.Request{Method: method, Path: path, Name: "web-1", Token: "default"}
}

func TestApplyMatches(t *testing.T) {
	for name, test := range map[string]struct {
		rule    fault.Rule
		request fault.Request
		hit     bool
	}{
		"exact":            {fault.Rule{Match: "POST /v2/droplets"}, request("POST", "/v2/droplets"), true},
		"other method":     {fault.Rule{Match: "POST /v2/droplets"}, request("GET", "/v2/droplets"), false},
		"one segment":      {fault.Rule{Match: "GET /v2/droplets/*"}, request("GET", "/v2/droplets/7"), true},
		"not two segments": {fault.Rule{Match: "GET /v2/droplets/*"}, request("GET", "/v2/droplets/7/actions"), false},
		"everything":       {fault.Rule{Match: fault.AnyRequest}, request("DELETE", "/v2/tags/x"), true},
		"name":             {fault.Rule{Match: fault.AnyRequest, Name: "web-*"}, request("GET", "/v2/x"), true},
		"other name":       {fault.Rule{Match: fault.AnyRequest, Name: "db-*"}, request("GET", "/v2/x"), false},
		"token":            {fault.Rule{Match: fault.AnyRequest, Token: "default"}, request("GET", "/v2/x"), true},
		"other token":      {fault.Rule{Match: fault.AnyRequest, Token: "second"}, request("GET", "/v2/x"), false},
	} {
		t.Run(name, func(t *testing.T) {
			set := &fault.Set{}
			test.rule.Effect = fault.Unauthorized
			_, err := set.Add(test.rule)
			require.NoError(t, err)
			require.Equal(t, test.hit, len(set.Apply(test.request)) == 1)
		})
	}
}

func TestApplySkipsAndCounts(t *testing.T) {
	set := &fault.Set{}
	_, err := set.Add(fault.Rule{Match: fault.AnyRequest, Skip: 1, Count: 2, Effect: fault.Quota})
	require.NoError(t, err)
	var fired []bool
	for range 5 {
		fired = append(fired, len(set.Apply(request("GET", "/v2/x"))) > 0)
	}
	require.Equal(t, []bool{false, true, true, false, false}, fired)
	require.Equal(t, 2, set.List()[0].Applied)
	require.Len(t, set.Hits(), 2)
}

func TestApplyKeepsTheOrderOfRules(t *testing.T) {
	set := &fault.Set{}
	for _, rule := range []fault.Rule{
		{ID: "slow", Match: fault.AnyRequest, Effect: fault.Effect{Latency: time.Second}},
		{ID: "first", Match: fault.AnyRequest, Count: 1, Effect: fault.Effect{Status: 503}},
		{ID: "second", Match: fault.AnyRequest, Effect: fault.Unauthorized},
	} {
		_, err := set.Add(rule)
		require.NoError(t, err)
	}
	rules := func() (ids []string) {
		for _, hit := range set.Apply(request("GET", "/v2/x")) {
			ids = append(ids, hit.Rule)
		}
		return ids
	}
	require.Equal(t, []string{"slow", "first"}, rules())
	require.Equal(t, []string{"slow", "second"}, rules())
	require.True(t, set.Remove("second"))
	require.Equal(t, []string{"slow"}, rules())
	set.Clear()
	require.Empty(t, rules())
}

func TestAddRefusesBadRules(t *testing.T) {
	for name, rule := range map[string]fault.Rule{
		"no method":   {Match: "/v2/x", Effect: fault.Quota},
		"bad pattern": {Match: "GET /v2/[", Effect: fault.Quota},
		"no effect":   {Match: fault.AnyRequest},
		"never":       {Match: fault.AnyRequest, Count: -3, Effect: fault.Quota},
		"before all":  {Match: fault.AnyRequest, Skip: -1, Effect: fault.Quota},
		"two effects": {Match: fault.AnyRequest, Effect: fault.Effect{Status: 500, Drop: true}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := new(fault.Set).Add(rule)
			require.Error(t, err)
		})
	}
}
