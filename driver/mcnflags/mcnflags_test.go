package mcnflags_test

import (
	"fmt"
	"strings"
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

func TestConvertRefusesHostileDrivers(t *testing.T) {
	many := make([]mcnflag.Flag, 10_000)
	for i := range many {
		many[i] = mcnflag.BoolFlag{Name: fmt.Sprintf("acme-%d", i)}
	}
	// What a driver may say about itself to harm whoever asks it.
	for name, tt := range map[string]struct {
		flags []mcnflag.Flag
		err   string
	}{
		"10,000 flags":  {many, "checking the driver's flags: the driver has 10000 flags, at most 1000 are accepted"},
		"a path":        {[]mcnflag.Flag{mcnflag.StringFlag{Name: "../x"}}, `checking the driver's flags: flag 0: the name "../x" has a character outside A-Z a-z 0-9 . _ -`},
		"an option":     {[]mcnflag.Flag{mcnflag.StringFlag{Name: "-rf"}}, `checking the driver's flags: flag 0: the name "-rf" begins with a dash`},
		"a line break":  {[]mcnflag.Flag{mcnflag.StringFlag{Name: "a\nb"}}, `checking the driver's flags: flag 0: the name "a\nb" has a character outside A-Z a-z 0-9 . _ -`},
		"no name":       {[]mcnflag.Flag{mcnflag.BoolFlag{Name: "acme-a"}, &mcnflag.IntFlag{}}, "checking the driver's flags: flag 1: the name is empty"},
		"a long name":   {[]mcnflag.Flag{mcnflag.BoolFlag{Name: strings.Repeat("a", 200)}}, "checking the driver's flags: flag 0: the name has 200 bytes, at most 128 are accepted"},
		"an assignment": {[]mcnflag.Flag{mcnflag.StringFlag{Name: "a", EnvVar: "LD_PRELOAD=x"}}, `checking the driver's flags: flag 0: a: the environment variable "LD_PRELOAD=x" is not a valid name`},
		"a long help": {[]mcnflag.Flag{mcnflag.StringFlag{Name: "a", Usage: strings.Repeat("u", 2049)}},
			"checking the driver's flags: flag 0: a: usage has 2049 bytes, at most 2048 are accepted"},
		"a long default": {[]mcnflag.Flag{mcnflag.StringFlag{Name: "a", Value: strings.Repeat("v", 4097)}},
			"checking the driver's flags: flag 0: a: the default has 4097 bytes, at most 4096 are accepted"},
		"many defaults": {[]mcnflag.Flag{mcnflag.StringSliceFlag{Name: "a", Value: make([]string, 257)}},
			"checking the driver's flags: flag 0: a: the default has 257 items, at most 256 are accepted"},
		"a kind of its own": {[]mcnflag.Flag{mcnflag.BoolFlag{Name: "a"}, ownFlag{}},
			"converting flag 1: a flag of type mcnflags_test.ownFlag is not understood: drivers may use StringFlag, IntFlag, BoolFlag and StringSliceFlag"},
		"twice": {[]mcnflag.Flag{mcnflag.BoolFlag{Name: "a"}, mcnflag.BoolFlag{Name: "a"}}, `checking the driver's flags: flag 1: "a" is declared twice`},
		"a nil pointer": {[]mcnflag.Flag{(*mcnflag.IntFlag)(nil)},
			"converting flag 0: a flag of type *mcnflag.IntFlag is not understood: drivers may use StringFlag, IntFlag, BoolFlag and StringSliceFlag"},
		"nothing": {[]mcnflag.Flag{nil}, "converting flag 0: a flag of type <nil> is not understood: drivers may use StringFlag, IntFlag, BoolFlag and StringSliceFlag"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := mcnflags.Convert(tt.flags)
			require.EqualError(t, err, tt.err)
			require.Nil(t, got)
		})
	}
	got, err := mcnflags.Convert(nil)
	require.NoError(t, err)
	require.Empty(t, got, "a driver may have no flags")
}
