package userdata_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/userdata"
)

func TestParseWay(t *testing.T) {
	for text, want := range map[string]clouds.UserData{
		"habit=none":              {Habit: clouds.None},
		"flag=a-b,habit=inline":   {Habit: clouds.Inline, Flag: "a-b"},
		"habit=path , flag=a":     {Habit: clouds.PathAtCreate, Flag: "a"},
		"flag=a,habit=path-early": {Habit: clouds.PathEarly, Flag: "a"},
		"flag=a,habit=base64,with=b=,with=c=x=y,unless=d=e,excludes=f,excludes=g,merges=h": {Habit: clouds.Base64, Flag: "a",
			With: map[string]string{"b": "", "c": "x=y"}, Unless: map[string]string{"d": "e"}, Excludes: []string{"f", "g"}, Merges: []string{"h"}},
	} {
		got, err := userdata.ParseWay(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"", "flag=a", "habit=inline", "flag=a,habit=none", "flag=a,habit=telepathy", "flag=a,flag=b,habit=inline", "flag=a,habit=path,habit=path",
		"flag=a b,habit=path", "flag=a,habit=path,with=b", "flag=a,habit=path,more=b", "flag=a,habit=path,", "flag=" + strings.Repeat("a", 2000) + ",habit=path",
	} {
		_, err := userdata.ParseWay(text)
		require.Error(t, err, text)
	}
}

// TestWay: what is known counts, what looks like user data is not guessed at, and a driver without such a flag takes none.
func TestWay(t *testing.T) {
	flags := func(names ...string) (out []crdgen.Field) {
		for _, name := range names {
			out = append(out, crdgen.Field{Flag: strings.TrimSuffix(name, "!"), Type: crdgen.String, File: strings.HasSuffix(name, "!")})
		}
		return out
	}
	for name, c := range map[string]struct {
		driver, annotation string
		flags              []crdgen.Field
		want               clouds.UserData
		err                string
	}{
		"a known driver":                     {driver: "azure", flags: flags("azure-custom-data"), want: clouds.Of("azure").UserData},
		"a known driver without":             {driver: "generic", flags: flags("generic-user-data"), want: clouds.Of("generic").UserData},
		"another of a known name":            {driver: "azure", flags: flags("azure-size"), want: clouds.UserData{Habit: clouds.None}},
		"another of a known name, unsure":    {driver: "azure", flags: flags("azure-userdata"), err: "azure-userdata may want"},
		"an unknown driver without":          {driver: "acme", flags: flags("acme-data", "acme-user"), want: clouds.UserData{Habit: clouds.None}},
		"an unknown driver":                  {driver: "acme", flags: flags("acme-size", "acme-user-data", "acme-cloud-init"), err: "acme-user-data, acme-cloud-init may want"},
		"a switch is none":                   {driver: "acme", flags: []crdgen.Field{{Flag: "acme-use-userdata", Type: crdgen.Bool}}, want: clouds.UserData{Habit: clouds.None}},
		"a file by the NodeDriver's aliases": {driver: "acme", flags: flags("acme-userdata!"), want: clouds.UserData{Habit: clouds.PathAtCreate, Flag: "acme-userdata"}},
		"an annotation":                      {driver: "acme", annotation: "flag=acme-x,habit=inline", flags: flags("acme-x", "acme-user-data"), want: clouds.UserData{Habit: clouds.Inline, Flag: "acme-x"}},
		"an annotation on a known driver":    {driver: "azure", annotation: "habit=none", flags: flags("azure-custom-data"), want: clouds.UserData{Habit: clouds.None}},
		"an annotation for another driver":   {driver: "acme", annotation: "flag=b-x,habit=inline,with=b-y=1", flags: flags("acme-x"), err: "has no flag b-x"},
		"an annotation that is none":         {driver: "acme", annotation: "yes", flags: flags("acme-x"), err: "drover.cattle.io/user-data of driver acme cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := userdata.Way(c.driver, c.annotation, c.flags)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}
