package crdgen_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/crdgen"
)

func TestDecodeFlagsBringsDefaultsIntoTheirTypes(t *testing.T) {
	flags, err := crdgen.DecodeFlags([]byte(`[
		{"name":"a-s","type":"string","default":"x","usage":"u","envVar":"A_S"},
		{"name":"a-i","type":"int","default":22},
		{"name":"a-b","type":"bool","default":true},
		{"name":"a-l","type":"stringSlice","default":["x","y"]},
		{"name":"a-zero","type":"int","default":0},
		{"name":"a-none","type":"string"}]`))
	require.NoError(t, err)
	require.Equal(t, []crdgen.Flag{
		{Name: "a-s", Type: crdgen.String, Default: "x", Usage: "u", EnvVar: "A_S"},
		{Name: "a-i", Type: crdgen.Int, Default: int64(22)},
		{Name: "a-b", Type: crdgen.Bool, Default: true},
		{Name: "a-l", Type: crdgen.StringSlice, Default: []string{"x", "y"}},
		{Name: "a-zero", Type: crdgen.Int},
		{Name: "a-none", Type: crdgen.String},
	}, flags)

	again, err := json.Marshal(flags)
	require.NoError(t, err)
	decoded, err := crdgen.DecodeFlags(again)
	require.NoError(t, err)
	require.Equal(t, flags, decoded)
}

// Whatever a driver says about itself: no panic, and what is accepted can become kinds the API server takes, or is refused.
func FuzzDecodeFlags(f *testing.F) {
	f.Add([]byte(`[{"name":"acme-token","type":"string","envVar":"ACME_TOKEN","usage":"the token"},{"name":"acme-ssh-port","type":"int","default":22}]`))
	f.Add([]byte(`[{"name":"url","type":"string"},{"name":"acme-url","type":"string","default":"x"}]`))
	f.Add([]byte(`[{"name":"acme-kind","type":"bool","default":true},{"name":"acme.a_b-2nd","type":"stringSlice","default":["a"]}]`))
	f.Add([]byte(`[{"name":"-","type":"bool"}]`))
	f.Add([]byte(`[{"name":"acme-x","type":"string","usage":"\u009b31m\u202e","default":"\u001b]0;x\u0007\u2066y\nz"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		flags, err := crdgen.DecodeFlags(data)
		if err != nil {
			return
		}
		fields, err := crdgen.FieldsOf("acme", flags, crdgen.Rules{})
		if err != nil {
			return
		}
		require.Len(t, fields, len(flags))
		config, _, machine, err := crdgen.CRDs(crdgen.Schema{Driver: "acme", Fields: fields})
		if err != nil {
			return
		}
		requireValid(t, config)
		requirePlain(t, config)
		back, err := crdgen.FieldsFromCRD(machine)
		require.NoError(t, err)
		require.Equal(t, withoutUsage(fields), back)
	})
}
