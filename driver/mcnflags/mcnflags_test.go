package mcnflags_test

import (
	"testing"

	"github.com/rancher/machine/libmachine/mcnflag"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver/mcnflags"
)

type ownFlag struct{ mcnflag.StringFlag }

func TestConvertTakesValuesAndPointers(t *testing.T) {
	want := []crdgen.Flag{
		{Name: "s", Usage: "u", EnvVar: "E", Type: crdgen.String, Default: "d"},
		{Name: "i", Type: crdgen.Int, Default: int64(22)},
		{Name: "b", Type: crdgen.Bool},
		{Name: "l", Type: crdgen.StringSlice, Default: []string{"x"}},
		{Name: "zero", Type: crdgen.Int},
	}
	s := mcnflag.StringFlag{Name: "s", Usage: "u", EnvVar: "E", Value: "d"}
	i := mcnflag.IntFlag{Name: "i", Value: 22}
	b := mcnflag.BoolFlag{Name: "b"}
	l := mcnflag.StringSliceFlag{Name: "l", Value: []string{"x"}}
	zero := mcnflag.IntFlag{Name: "zero"}
	for _, flags := range [][]mcnflag.Flag{{s, i, b, l, zero}, {&s, &i, &b, &l, &zero}} {
		got, err := mcnflags.Convert(flags)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestConvertRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, flags := range map[string][]mcnflag.Flag{
		"own type":    {ownFlag{}},
		"nil":         {nil},
		"nil pointer": {(*mcnflag.IntFlag)(nil)},
		"bad name":    {mcnflag.StringFlag{Name: "a b"}},
		"twice":       {mcnflag.BoolFlag{Name: "a"}, mcnflag.BoolFlag{Name: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mcnflags.Convert(flags)
			require.Error(t, err)
		})
	}
}
