package provisioning_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/provisioning"
)

// withoutValue is the value that a driver takes for a flag that is not set, and another value.
func withoutValue(field crdgen.Field) (absent, other any) {
	switch field.Type {
	case crdgen.Int:
		absent, other = int64(0), int64(17)
	case crdgen.Bool:
		absent, other = false, true
		if field.Default == true {
			other = false
		}
	case crdgen.StringSlice:
		absent, other = []any{}, []any{"other"}
	case crdgen.String:
		absent, other = "", "other"
	}
	if items, ok := field.Default.([]string); ok {
		list := []any{}
		for _, item := range items {
			list = append(list, item)
		}
		return list, other
	}
	if field.Default != nil {
		absent = field.Default
	}
	return absent, other
}

// TestRender_defaultWritten: for each option of each built-in driver, no machine is replaced because a
// Config has the default written out, or no longer has; another value does replace them.
func TestRender_defaultWritten(t *testing.T) {
	checked := 0
	for _, name := range driver.BuiltinNames() {
		flags, _ := driver.Builtin(name)
		fields, err := crdgen.FieldsOf(name, flags, crdgen.Rules{})
		require.NoError(t, err)
		known := map[string]crdgen.Field{}
		for _, field := range fields {
			known[field.Name] = field
		}
		for _, field := range fields {
			if slices.Contains([]string{"region", "size"}, field.Name) { // the example has them
				continue
			}
			at := fmt.Sprintf("%s %s (%s)", name, field.Name, field.Type)
			absent, other := withoutValue(field)
			require.Equal(t, rolled{}, rolls(t, known, field.Name, nil, absent), at)
			require.Equal(t, rolled{}, rolls(t, known, field.Name, absent, nil), at)
			require.Equal(t, rolled{field.Name}, rolls(t, known, field.Name, nil, other), at)
			require.Equal(t, rolled{field.Name}, rolls(t, known, field.Name, other, nil), at)
			if field.Type == crdgen.Int {
				require.Equal(t, rolled{}, rolls(t, known, field.Name, int64(1017), "1017"), at)
			}
			checked++
		}
	}
	require.Greater(t, checked, 250)
}

// rolled are the names of the options for which machines are replaced.
type rolled []string

// rolls returns the options for which the workers are replaced when one option of their Config changes.
// A nil is no value.
func rolls(t *testing.T, fields map[string]crdgen.Field, option string, from, to any) rolled {
	t.Helper()
	in := load(t, "testdata/workers.yaml")
	set := func(value any) {
		if delete(in.Pools["workers"].Config.Object, option); value != nil {
			in.Pools["workers"].Config.Object[option] = value
		}
	}
	set(from)
	in = made(t, in)
	pool := in.Pools["workers"]
	pool.Fields = fields
	in.Pools["workers"] = pool
	set(to)
	pool.Config.SetGeneration(pool.Config.GetGeneration() + 1)
	before := pool.Template.GetName()
	effects, _, err := provisioning.Preview(in)
	require.NoError(t, err)
	names := rolled{}
	for _, effect := range effects {
		if effect.Pool == "workers" && effect.Replaced > 0 {
			names = append(names, option)
		}
	}
	require.Equal(t, len(names) == 0, before == templateOf(t, in, "workers"))
	return names
}

// TestPreview_canary: no value of a secret option, of a file or of a credential is in an effect, and no value
// of an option that is not known.
func TestPreview_canary(t *testing.T) {
	const canary = "c4n4ry"
	checked := 0
	for _, name := range driver.BuiltinNames() {
		flags, _ := driver.Builtin(name)
		fields, err := crdgen.FieldsOf(name, flags, crdgen.Rules{})
		require.NoError(t, err)
		known := map[string]crdgen.Field{}
		for _, field := range fields {
			known[field.Name] = field
		}
		for _, option := range append(fields, crdgen.Field{Name: "unknown", Type: crdgen.String}) {
			if _, is := known[option.Name]; is && !option.Secret && !option.File && option.Credential == "" {
				continue
			}
			var value any = canary
			if option.Type == crdgen.StringSlice {
				value = []any{canary}
			}
			in := load(t, "testdata/workers.yaml")
			in.Cluster.Spec.RKEConfig.MachineReplacement = provv1.ReplaceOnApproval
			in.Pools["workers"].Config.Object[option.Name] = value
			in = made(t, in)
			pool := in.Pools["workers"]
			pool.Fields = known
			in.Pools["workers"] = pool
			pool.Config.Object[option.Name] = fmt.Sprint(value, "2")
			pool.Config.SetGeneration(pool.Config.GetGeneration() + 1)
			effects, out, err := provisioning.Preview(in)
			require.NoError(t, err)
			require.NotNil(t, out.Pending, "%s %s", name, option.Name)
			require.NotContains(t, fmt.Sprint(effects, out.Findings, *out.Pending), canary, "%s %s", name, option.Name)
			checked++
		}
	}
	require.GreaterOrEqual(t, checked, 20)
}

// TestRender_manyPools: the rendering of 1,000 pools is bounded in time, and so are the described changes.
func TestRender_manyPools(t *testing.T) {
	in := load(t, "testdata/workers.yaml")
	config := in.Pools["workers"].Config
	for i := range 995 {
		pool := in.Cluster.Spec.RKEConfig.MachinePools[2]
		pool.Name = fmt.Sprintf("pool-%03d-%s", i, strings.Repeat("p", 50))
		in.Cluster.Spec.RKEConfig.MachinePools = append(in.Cluster.Spec.RKEConfig.MachinePools, pool)
		in.Pools[pool.Name] = provisioning.PoolInput{Config: config}
	}
	start := time.Now()
	in = made(t, in)
	in.Cluster.Spec.RKEConfig.MachineReplacement = provv1.ReplaceOnApproval
	for i := range 100 {
		config.Object[fmt.Sprintf("option%03d", i)] = strings.Repeat("v", 40)
	}
	config.SetGeneration(9)
	_, out, err := provisioning.Preview(in)
	require.NoError(t, err)
	require.Less(t, time.Since(start), 10*time.Second)
	require.Len(t, out.Pending.Pools, 996)
	text, err := json.Marshal(out.Pending)
	require.NoError(t, err)
	require.Less(t, len(text), 256<<10)
	require.Equal(t, "80 more options", out.Pending.Pools[0].Changes[20])
}
