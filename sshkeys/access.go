package sshkeys

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/state"
)

// DefaultUser and DefaultPort apply if a driver leaves them out.
const (
	DefaultUser = "root"
	DefaultPort = 22
)

// Access holds the data for logging in to a server.
type Access struct {
	// User, Host and Port of the server's SSH daemon.
	User string
	Host string
	Port int
	// PrivateKey in OpenSSH or PEM form, PublicKey as an authorized_keys line (may be empty).
	PrivateKey []byte
	PublicKey  []byte
	// KnownHosts are the recorded host keys, known_hosts lines; empty when none was recorded yet.
	KnownHosts []byte
	// Jump is ProxyJump in the ssh_config, or empty. The Dialer makes the connection through it.
	Jump string
}

// Address is host:port, with brackets around an IPv6 host.
func (a Access) Address() string {
	return net.JoinHostPort(a.Host, strconv.Itoa(a.Port))
}

// AccessFrom reads it from a machine's state. Machines taken over from Rancher have only the
// archive; their access data is read from there. Errors are ErrNoKey, ErrNoAddress, or about
// unreadable documents.
func AccessFrom(kept state.State) (Access, error) {
	access := Access{PrivateKey: kept.PrivateKey, PublicKey: kept.PublicKey, KnownHosts: kept.KnownHosts}
	if kept.Server.Err != nil {
		return Access{}, kept.Server.Err
	}
	server := kept.Server.Value
	access.User, access.Host, access.Port = server.SSHUser, server.SSHHost, server.SSHPort
	for _, kind := range []string{"ExternalIP", "ExternalDNS", "InternalIP", "InternalDNS"} {
		if at := slices.IndexFunc(server.Addresses, func(a state.Address) bool { return a.Type == kind }); at >= 0 {
			access.Host = cmp.Or(access.Host, server.Addresses[at].Address)
		}
	}
	if access.Host == "" || len(access.PrivateKey) == 0 {
		if err := access.fromArchive(kept.ExtractedConfig); err != nil {
			return Access{}, err
		}
	}
	return access.checked()
}

func (a Access) checked() (Access, error) {
	if len(a.PrivateKey) == 0 {
		return Access{}, ErrNoKey
	}
	if a.Host == "" {
		return Access{}, ErrNoAddress
	}
	// The driver's address for its server is written into known_hosts and ssh_config, where these
	// characters have another meaning.
	if strings.ContainsFunc(a.Host, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`,*?!|@#"'\/`+"`", r)
	}) {
		return Access{}, fmt.Errorf("the address %q of the server is invalid", a.Host)
	}
	a.User = cmp.Or(a.User, DefaultUser)
	if a.Port <= 0 || a.Port > 65535 {
		a.Port = DefaultPort
	}
	return a, nil
}

// fromArchive fills empty fields from the machine directory; rancher/machine keeps one machine per
// state Secret.
func (a *Access) fromArchive(archive []byte) error {
	if len(archive) == 0 {
		return nil
	}
	files, err := ReadArchive(archive)
	if err != nil {
		return err
	}
	// The part of rancher/machine's config.json that says how to log in.
	var config struct {
		Driver struct {
			IPAddress, PrivateIPAddress, SSHUser, SSHKeyPath string
			SSHPort                                          int
		}
	}
	file := fileAt(files, func(at string) bool { return path.Base(at) == "config.json" })
	machine := path.Dir(file.Path)
	if machine == "." {
		return nil
	}
	if err := json.Unmarshal(file.Content, &config); err != nil {
		return fmt.Errorf("reading %s of the state's archive: %w", file.Path, err)
	}
	driver := config.Driver
	if a.Host == "" {
		a.Host, a.User, a.Port = cmp.Or(driver.IPAddress, driver.PrivateIPAddress), driver.SSHUser, driver.SSHPort
	}
	for _, name := range []string{path.Base(driver.SSHKeyPath), "id_rsa", "id_ed25519", "id_ecdsa"} {
		if len(a.PrivateKey) == 0 {
			a.PrivateKey = fileAt(files, func(at string) bool { return at == path.Join(machine, name) }).Content
			a.PublicKey = fileAt(files, func(at string) bool { return at == path.Join(machine, name+".pub") }).Content
		}
	}
	return nil
}

// fileAt returns the first file with such a path, or the zero value.
func fileAt(files []File, is func(path string) bool) File {
	for _, file := range files {
		if is(file.Path) {
			return file
		}
	}
	return File{}
}

// Record reads the driver's record out of the archive of a state, or returns nil without one. Its
// errors do not quote it.
func Record(archive []byte) (clouds.Record, error) {
	if len(archive) == 0 {
		return nil, nil
	}
	files, err := ReadArchive(archive)
	if err != nil {
		return nil, errors.New("the state's archive cannot be read")
	}
	file := fileAt(files, func(at string) bool { return path.Base(at) == "config.json" })
	if file.Path == "" {
		return nil, nil
	}
	var config struct{ Driver json.RawMessage }
	if err := json.Unmarshal(file.Content, &config); err != nil {
		return nil, errors.New("config.json of the state's archive is no JSON of a machine")
	}
	return clouds.DecodeRecord(config.Driver)
}
