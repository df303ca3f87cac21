package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// EndpointsFile is the file in the state directory with the addresses of the running cloud.
const EndpointsFile = "endpoints.json"

// ErrNotRunning says that no cloud serves from the state directory.
var ErrNotRunning = errors.New("no local cloud is running here")

// Endpoints is where a running cloud listens.
type Endpoints struct {
	Proxy       string `json:"proxy"`
	Files       string `json:"files"`
	Registry    string `json:"registry,omitempty"`
	Admin       string `json:"admin"`
	AdminSecret string `json:"adminSecret"`
	CAFile      string `json:"caFile"`
}

// ReadEndpoints returns where the cloud of the state directory listens; its error wraps
// ErrNotRunning when the cloud says nothing there.
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

// asked is a command for a running cloud, and where its relative paths begin.
type asked struct {
	Args []string `json:"args"`
	Dir  string   `json:"dir"`
}

type answered struct {
	Output string `json:"output"`
	Error  string `json:"error,omitempty"`
}

// direct uses no proxy, because the cloud listens on loopback.
var direct = &http.Client{Transport: &http.Transport{IdleConnTimeout: 30 * time.Second}, Timeout: 5 * time.Minute}

// Ask sends one of Command's commands to the cloud that runs from a state directory, and returns
// its output.
func Ask(ctx context.Context, stateDir string, args ...string) (string, error) {
	endpoints, err := ReadEndpoints(stateDir)
	if err != nil {
		return "", err
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	body, err := json.Marshal(asked{args, dir})
	if err != nil {
		return "", fmt.Errorf("encoding a command: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoints.Admin, bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("asking local cloud: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+endpoints.AdminSecret)
	response, err := direct.Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) { // it ended without taking its endpoints back
		return "", fmt.Errorf("asking local cloud: nothing listens at %s: %w", endpoints.Admin, ErrNotRunning)
	}
	if err != nil {
		return "", fmt.Errorf("asking local cloud: %w", err)
	}
	content, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return "", fmt.Errorf("asking local cloud: %w", err)
	}
	var answer answered
	if err := json.Unmarshal(content, &answer); err != nil {
		return "", fmt.Errorf("asking local cloud: %s: %s", response.Status, bytes.TrimSpace(content))
	}
	if answer.Error != "" {
		return answer.Output, errors.New(strings.TrimSpace(answer.Error))
	}
	return answer.Output, nil
}
