package vcenter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const endpointFile = "endpoint.json"

// Endpoint is where and how to log in.
type Endpoint struct {
	Address  string `json:"address"`
	Username string `json:"username"`
	Password string `json:"password"`
}

// Endpoint of the simulator.
func (s *Simulator) Endpoint() Endpoint {
	return Endpoint{Address: s.Address(), Username: s.opts.Username, Password: s.opts.Password}
}

// WriteEndpoint leaves an endpoint in a state directory.
func WriteEndpoint(stateDir string, endpoint Endpoint) error {
	content, err := json.Marshal(endpoint) //nolint:gosec // the simulated password is to be read by other commands, from a file of ours alone
	if err != nil {
		return fmt.Errorf("encoding the endpoint: %w", err)
	}
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return fmt.Errorf("making the state directory: %w", err)
	}
	// Whoever finds the file finds all of it.
	partial := filepath.Join(stateDir, endpointFile+".partial")
	if err := os.WriteFile(partial, content, 0o600); err != nil {
		return fmt.Errorf("writing the endpoint: %w", err)
	}
	return os.Rename(partial, filepath.Join(stateDir, endpointFile))
}

// ReadEndpoint finds the simulator that serves from a state directory.
func ReadEndpoint(stateDir string) (Endpoint, error) {
	var endpoint Endpoint
	content, err := os.ReadFile(filepath.Join(stateDir, endpointFile))
	if err != nil {
		return endpoint, fmt.Errorf("finding a running simulator: %w", err)
	}
	if err := json.Unmarshal(content, &endpoint); err != nil {
		return endpoint, fmt.Errorf("reading the endpoint: %w", err)
	}
	return endpoint, nil
}

// RemoveEndpoint takes an endpoint away, with its password, unless another simulator has left its own since.
func RemoveEndpoint(stateDir string, endpoint Endpoint) error {
	found, err := ReadEndpoint(stateDir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && found != endpoint {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(stateDir, endpointFile)); err != nil {
		return fmt.Errorf("removing the endpoint: %w", err)
	}
	return nil
}
