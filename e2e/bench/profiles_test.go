package bench

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"
)

// profilesDir is where the manager's profiles go; a relative one is below this package.
var profilesDir = flag.String("profiles", "", "directory for CPU and heap profiles of the manager; none are taken without it")

// cpuProfileTime is how long a CPU profile is.
const cpuProfileTime = "20"

// profile writes a profile of the manager under a name, by what net/http/pprof calls it, when profiles are wanted.
func (m *manager) profile(what, name string) {
	m.Helper()
	if *profilesDir == "" {
		return
	}
	require.NoError(m, os.MkdirAll(*profilesDir, 0o755))
	require.NoError(m, m.download("http://"+m.profiling+"/debug/pprof/"+what, filepath.Join(*profilesDir, name)))
}

func (m *manager) download(url, path string) error {
	req, err := http.NewRequestWithContext(m.Context(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("getting %s: %s", url, resp.Status)
	}
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}
