package operation

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
)

// TestProveDelivery: what is seen on the server decides, and what cannot be seen is said to be so.
func TestProveDelivery(t *testing.T) {
	yes, no := new(true), new(false)
	says := func(status string) string { return "#!/bin/sh\necho status: " + status + "\n" }
	for name, c := range map[string]struct {
		files     []string
		cloudInit string
		earlier   bool
		ssh       bool
		unreached bool
		proven    *bool
		message   string
	}{
		"its commands have ended":  {files: []string{"", ".ran"}, proven: yes, message: "has applied the bootstrap data"},
		"its commands run":         {files: []string{""}, cloudInit: says("running"), proven: yes, message: "runs its commands"},
		"cloud-init knows nothing": {cloudInit: says("done"), proven: no, message: "cloud-init on the server has ended (done) without the bootstrap data"},
		"cloud-init is off":        {cloudInit: says("disabled"), proven: no, message: "(disabled)"},
		"cloud-init failed":        {cloudInit: says("error"), proven: no, message: "(error)"},
		"no cloud-init":            {message: "there is no cloud-init on it"},
		"an earlier attempt's":     {cloudInit: says("done"), earlier: true, message: "may not have had"},
		"an earlier attempt's too": {files: []string{""}, cloudInit: says("done"), earlier: true, proven: yes, message: "runs its commands"},
		"no way to log in":         {unreached: true, message: "could not log in"},
		"another way":              {ssh: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := meeting(t, "digitalocean")
			s.bootstrap, s.marked = []byte("#!/bin/sh\n"), !c.earlier
			s.request.Tags = map[string]string{jobrunner.TagMachineUID: "u-1"}
			if !c.ssh {
				s.way = clouds.UserData{Habit: clouds.Inline, Flag: "x"}
			}
			if c.unreached {
				s.server.SSHPort = 1
			}
			home := filepath.Dir(s.options.MarkerRoot)
			s.options.DeliveredDir = filepath.Join(home, "delivered")
			require.NoError(t, os.Mkdir(s.options.DeliveredDir, 0o700))
			for _, suffix := range c.files {
				require.NoError(t, os.WriteFile(filepath.Join(s.options.DeliveredDir, "u-1"+suffix), nil, 0o600))
			}
			if c.cloudInit != "" {
				require.NoError(t, os.WriteFile(filepath.Join(home, "cloud-init"), []byte(c.cloudInit), 0o700))
			}
			require.NoError(t, s.meetServer(t.Context()))
			if c.message == "" {
				require.Nil(t, s.result.Delivery)
				return
			}
			require.NotNil(t, s.result.Delivery)
			require.Equal(t, c.proven, s.result.Delivery.Proven)
			require.Contains(t, s.result.Delivery.Message, c.message)
		})
	}
}
