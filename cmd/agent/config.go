package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"

	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/agent/access"
	"github.com/drover-project/drover/api/plan"
)

// Where things are when the configuration does not say: system-agent's places (§7.1 of our notes on
// it).
const (
	defaultConfig = "/etc/rancher/agent/config.yaml"
	defaultFolder = "/var/lib/rancher/agent"

	// installedConfig is the path that our install script writes.
	installedConfig = "/etc/drover/agent.yaml"
)

// config is the configuration file. The first group of fields comes from Rancher's system-agent. Of
// its other fields, localEnabled is rejected, because plans come from a manager only. The rest is
// ignored.
type config struct {
	WorkDirectory         string `json:"workDirectory"`
	ConnectionInfoFile    string `json:"connectionInfoFile"`
	PreserveWorkDirectory bool   `json:"preserveWorkDirectory"`
	ImagesDirectory       string `json:"imagesDirectory"`
	AgentRegistriesFile   string `json:"agentRegistriesFile"`
	LocalEnabled          bool   `json:"localEnabled"`

	// EnvironmentFile has the agent's variables. A plan may change it at any time.
	EnvironmentFile string `json:"environmentFile"`
	// Folder has the journal, and is the default place of the others.
	Folder string `json:"folder"`
	// Server and CAFile are the endpoint to register at; TokenFile has the bootstrap token and is
	// deleted when it is used up.
	Server    string `json:"server"`
	CAFile    string `json:"caFile"`
	TokenFile string `json:"tokenFile"`
	// KeyFile has the key that the agent makes.
	KeyFile string `json:"keyFile"`
}

const maxConfigBytes = 256 << 10

// readConfig reads the configuration. It returns an error if other users can read the file or the
// files that it names.
func readConfig(path string) (*config, error) {
	content, err := readPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	c, err := parseConfig(content)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration %s: %w", path, err)
	}
	for _, private := range []string{c.TokenFile, c.KeyFile, c.ConnectionInfoFile} {
		if _, err := readPrivate(private); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if _, err = access.ReadSaved(c.ConnectionInfoFile); c.Server != "" && errors.Is(err, fs.ErrNotExist) {
		err = nil // it is yet to register
	}
	return c, err
}

func parseConfig(content []byte) (*config, error) {
	c := &config{}
	if err := yaml.Unmarshal(content, c); err != nil {
		return nil, fmt.Errorf("parsing: %w", err)
	}
	if c.LocalEnabled {
		return nil, errors.New("localEnabled: plans come from the manager only")
	}
	if server, err := url.Parse(c.Server); c.Server != "" && (err != nil || server.Scheme != "https" || server.Host == "") { // it may hold a password
		return nil, errors.New("server is not of the form https://host or https://host:port")
	}
	if c.Folder != "" && !filepath.IsAbs(c.Folder) {
		return nil, fmt.Errorf("folder: %q is not absolute", c.Folder)
	}
	def := func(field *string, value ...string) {
		if *field == "" {
			*field = filepath.Join(value...)
		}
	}
	def(&c.Folder, defaultFolder)
	def(&c.EnvironmentFile, plan.EnvironmentFile)
	def(&c.WorkDirectory, c.Folder, "work")
	def(&c.ImagesDirectory, c.Folder, "images")
	def(&c.ConnectionInfoFile, c.Folder, "rancher2_connection_info.json")
	def(&c.KeyFile, c.Folder, "agent.key")
	def(&c.TokenFile, filepath.Dir(defaultConfig), "token")
	def(&c.AgentRegistriesFile, filepath.Dir(defaultConfig), "registries.yaml")
	return c, nil
}

// readAuthorities reads the certificates that verify the endpoint; without any, the system's are
// used.
func (c *config) readAuthorities() ([]byte, error) {
	if c.CAFile == "" {
		return nil, nil
	}
	content, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the endpoint's CA certificates: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("reading the endpoint's CA certificates: %s has no certificate in PEM", c.CAFile)
	}
	return content, nil
}

// readPrivate reads a file that belongs to the agent's user and that other users cannot read.
func readPrivate(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %04o: change the mode to 0600, because the file leads to this server's secrets", path, info.Mode().Perm())
	}
	if !isOurs(info) {
		return nil, fmt.Errorf("%s belongs to another user", path)
	}
	content, err := io.ReadAll(io.LimitReader(file, 8*maxConfigBytes+1))
	if err == nil && len(content) > 8*maxConfigBytes {
		err = fmt.Errorf("%s is larger than %d bytes", path, 8*maxConfigBytes)
	}
	return content, err
}
