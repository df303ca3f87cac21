package vcenter_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// The legacy way installs SSH keys through guest operations, for which a simulated machine has no guest: the machine is made,
// its image uploaded, and there it ends. A change here is a reason to change docs/vsphere-simulator.md.
func TestLegacyEndsAtGuestOperations(t *testing.T) {
	t.Chdir(t.TempDir())
	images := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 4096))
	}))
	defer images.Close()
	s := start(t, nil)
	d := newDriver(t, s, "old", map[string]any{"creation-type": "legacy", "boot2docker-url": images.URL + "/boot2docker.iso"})
	err := d.Create()
	require.ErrorContains(t, err, "GuestOperationsUnavailable")
	require.NotEmpty(t, d.MachineId)
	require.Equal(t, []string{"old"}, names(t, s))
	require.NoError(t, d.Remove())
	require.Empty(t, names(t, s))
}
