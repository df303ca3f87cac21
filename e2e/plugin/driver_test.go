package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rancher/machine/drivers/digitalocean"
	"github.com/rancher/machine/libmachine/drivers"
	"github.com/stretchr/testify/require"
)

// Each way of taking user data, and what is refused.
func TestUserDataHabits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "user-data")
	require.NoError(t, os.WriteFile(file, []byte("#!x"), 0o600))
	for name, c := range map[string]struct {
		values map[string]any
		want   string
		err    string
	}{
		"path":      {values: map[string]any{"userdata": file}, want: "#!x"},
		"early":     {values: map[string]any{"userdata-early": file}, want: "#!x"},
		"too early": {values: map[string]any{"userdata-early": file + "2"}, err: "reading user data early"},
		"text":      {values: map[string]any{"userdata-text": "#!x"}, want: "#!x"},
		"switch":    {values: map[string]any{"userdata-text": file, "userdata-from-file": true}, want: "#!x"},
		"base64":    {values: map[string]any{"userdata-base64": "IyF4"}, want: "#!x"},
		"no base64": {values: map[string]any{"userdata-base64": "#!x"}, err: "is no base64"},
		"both":      {values: map[string]any{"userdata": file, "userdata-text": "#!x"}, err: "exclude each other"},
		"joined":    {values: map[string]any{"userdata-text": "#!x", "userdata-more": "y"}, want: "#!xy"},
		"dropped":   {values: map[string]any{"userdata-more": "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			values := map[string]any{"drovertest-token": "t"}
			for flag, value := range c.values {
				values["drovertest-"+flag] = value
			}
			store := t.TempDir()
			require.NoError(t, os.MkdirAll(filepath.Join(store, "machines", "web-1"), 0o700))
			d := &Driver{Driver: digitalocean.NewDriver("web-1", store)}
			err := d.SetConfigFromFlags(&drivers.CheckDriverOptions{FlagsValues: values, CreateFlags: d.GetCreateFlags()})
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			got := ""
			if d.UserDataFile != "" {
				content, err := os.ReadFile(d.UserDataFile)
				require.NoError(t, err)
				got = string(content)
			}
			require.Equal(t, c.want, got)
		})
	}
}
