package main

import (
	"testing"

	"github.com/rancher/machine/libmachine/drivers"
	"github.com/stretchr/testify/require"
)

func TestOnlyKnownFailuresAreTaken(t *testing.T) {
	for fail, want := range map[string]string{
		"": "", "check": "", "create": "", "after-create": "", "crash": "", "hang": "", "remove": "",
		"chekc":  `drovertest: --drovertest-fail knows no "chekc"`,
		"Create": `drovertest: --drovertest-fail knows no "Create"`,
	} {
		t.Run("fail="+fail, func(t *testing.T) {
			d := &Driver{BaseDriver: &drivers.BaseDriver{}, getenv: func(string) string { return "from the environment" }}
			err := d.SetConfigFromFlags(&drivers.CheckDriverOptions{
				FlagsValues: map[string]any{"drovertest-fail": fail}, CreateFlags: d.GetCreateFlags(),
			})
			if want != "" {
				require.EqualError(t, err, want)
				return
			}
			require.NoError(t, err, "the token may come from the environment")
			require.Equal(t, fail, d.Fail)
		})
	}
}
