package operation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

const maxRequestBytes = 2 << 20

var (
	driverName   = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$`)
	instanceName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,252}$`)
)

// readRequest reads the request and the bootstrap data from the mounted request Secret.
func readRequest(dir string) (jobrunner.Request, []byte, error) {
	var request jobrunner.Request
	content, err := readBounded(filepath.Join(dir, jobrunner.RequestKey), maxRequestBytes)
	if err != nil {
		return request, nil, fmt.Errorf("reading the request: %w", err)
	}
	if err := json.Unmarshal(content, &request); err != nil {
		// The decoder's text can repeat what it met.
		return request, nil, errors.New("reading the request: it is no JSON of a request")
	}
	if !driverName.MatchString(request.Driver.Name) {
		return request, nil, errors.New("reading the request: the driver's name is not usable")
	}
	makes := request.Operation == state.Create || request.Operation == state.Remove
	if makes && !instanceName.MatchString(request.InstanceName) {
		// It becomes the name of a directory.
		return request, nil, errors.New("reading the request: the server's name is not usable")
	}
	if !request.HasBootstrap {
		return request, nil, nil
	}
	data, err := readBounded(filepath.Join(dir, jobrunner.BootstrapKey), maxRequestBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return request, nil, fmt.Errorf("reading the bootstrap data: %w", err)
	}
	return request, data, nil
}

func readBounded(name string, limit int64) ([]byte, error) {
	file, err := os.Open(filepath.Clean(name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", filepath.Base(name), limit)
	}
	return content, nil
}
