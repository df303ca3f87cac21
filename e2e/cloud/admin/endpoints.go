package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// EndpointsFile is the file in the state directory that tells where the
// running cloud listens.
const EndpointsFile = "endpoints.json"

// ErrNotRunning says that no cloud serves from the state directory.
var ErrNotRunning = errors.New("no local cloud is running here")

// Endpoints is where a running cloud listens.
type Endpoints struct {
	API         string `json:"api"`
	Proxy       string `json:"proxy"`
	Files       string `json:"files"`
	Admin       string `json:"admin"`
	AdminSecret string `json:"adminSecret"`
	CAFile      string `json:"caFile"`
	PID         int    `json:"pid"`
}

// ReadEndpoints returns where the cloud of the state directory listens; its
// error wraps ErrNotRunning when the cloud says nothing there.
func ReadEndpoints(stateDir string) (Endpoints, error) {
	var endpoints Endpoints
	path := filepath.Join(stateDir, EndpointsFile)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return endpoints, fmt.Errorf("finding local cloud in %s: %w", stateDir, ErrNotRunning)
	}
	if err != nil {
		return endpoints, fmt.Errorf("finding local cloud: %w", err)
	}
	if err := json.Unmarshal(content, &endpoints); err != nil {
		return endpoints, fmt.Errorf("parsing %s: %w", path, err)
	}
	return endpoints, nil
}
