package operation_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/jobrunner/operation"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/userdata"
)

// TestHabits: a plugin process that takes user data in one way, and no other, hands the cloud the whole of it. Story
// user-data-habits shows the same on servers.
func TestHabits(t *testing.T) {
	t.Parallel()
	content := buildPlugin(t)
	sum := sha256.Sum256(content)
	theCloud.Files.Put("drivers/habits", content)
	plugin := func(t *testing.T, way string) *job {
		t.Helper()
		j := newJob(t, "drovertest")
		j.request.Driver = state.DriverRef{Name: "drovertest", URL: "https://" + cloud.FilesHost + "/drivers/habits", Checksum: hex.EncodeToString(sum[:])}
		j.request.CredentialEnv = map[string]string{"DROVERTEST_TOKEN": theCloud.Token()}
		if way != "" {
			var err error
			j.request.UserData, err = userdata.ParseWay(way)
			require.NoError(t, err)
		}
		j.request.HasBootstrap, j.data = true, []byte("## template: jinja\n#cloud-config\nruncmd: ['echo größe 🚀 MARKER-token']\n")
		return j
	}
	for name, way := range map[string]string{
		"path": "flag=drovertest-userdata,habit=path", "early": "flag=drovertest-userdata-early,habit=path-early",
		"inline": "flag=drovertest-userdata-text,habit=inline,excludes=drovertest-userdata", "base64": "flag=drovertest-userdata-base64,habit=base64",
		"switch": "flag=drovertest-userdata-text,habit=path,with=drovertest-userdata-from-file=true",
		"merge":  "flag=drovertest-userdata-text,habit=inline,merges=drovertest-userdata-more",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := plugin(t, way)
			if name == "merge" {
				j.request.Options = map[string]any{"drovertest-userdata-more": "final_message: joined\n"}
			}
			result := j.mustCreate()
			require.NotNil(t, result.Delivery)
			require.Nil(t, result.Delivery.Proven, "nobody can log in to the local cloud's servers")
			given, err := theCloud.Account.UserData(atoi(t, j.droplets(false)[0].ID))
			require.NoError(t, err)
			var config struct{ Runcmd []any }
			require.NoError(t, yaml.Unmarshal([]byte(given), &config))
			require.Len(t, config.Runcmd, 2)
			require.Equal(t, "echo größe 🚀 MARKER-token", config.Runcmd[0])
			require.Contains(t, config.Runcmd[1], "/var/lib/drover/delivered/"+j.request.Machine.UID+".ran")
			if name == "merge" {
				require.Contains(t, given, "\nfinal_message: joined\n")
			}
			j.requireNoSecrets("MARKER-token")
			j.mustRemove()
		})
	}
	for name, c := range map[string]struct {
		way     string
		options map[string]any
		reason  string
	}{
		"nobody knows":    {reason: "UserDataHabitUnknown"},
		"exclusive pair":  {way: "flag=drovertest-userdata-text,habit=inline,excludes=drovertest-userdata", options: map[string]any{"drovertest-userdata": "#cloud-config\n"}, reason: "SpecInvalid"},
		"the wrong habit": {way: "flag=drovertest-userdata-base64,habit=inline", reason: "OptionsInvalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := plugin(t, c.way)
			j.request.Options = c.options
			code, result := j.run(t.Context(), state.Create)
			require.Equal(t, operation.ExitFailed, code)
			require.Equal(t, c.reason, result.Reason, result.Message)
			require.False(t, result.ServerMayExist)
			require.Empty(t, j.droplets(true), "nothing is paid for")
		})
	}
}
