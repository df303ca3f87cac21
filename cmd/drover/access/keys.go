package access

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/sshkeys"
)

// configFile is the ssh_config among the key files; its first line names the machine that owns
// them.
const configFile = "config"

const knownHostsFile = "known_hosts"

// KeyFiles are the files with which the user's own ssh logs in to a server.
type KeyFiles struct {
	// Dir holds the files and nothing else, mode 0700.
	Dir string
	// Files by name, all of mode 0600.
	Files []KeyFile

	mark    string
	access  sshkeys.Access
	options []sshkeys.ConfigOption
}

// KeyFile is one of KeyFiles.
type KeyFile struct {
	Name    string
	Content []byte
}

// NewKeyFiles makes the files for a machine below dir.
func NewKeyFiles(dir string, m *facts.Machine, access sshkeys.Access) (*KeyFiles, error) {
	dir, err := filepath.Abs(filepath.Join(dir, m.Name))
	if err != nil {
		return nil, fmt.Errorf("finding the directory: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(access.PrivateKey)
	if err != nil {
		return nil, errors.New("the state's SSH private key is no OpenSSH or PEM key without passphrase")
	}
	knownHosts, err := sshkeys.RenameKnownHosts(access.KnownHosts, m.Name, net.JoinHostPort(access.Host, strconv.Itoa(access.Port)))
	if err != nil {
		return nil, err
	}
	identity := "id_rsa" // as ssh itself would name the key
	switch kind := signer.PublicKey().Type(); {
	case kind == ssh.KeyAlgoED25519:
		identity = "id_ed25519"
	case strings.HasPrefix(kind, "ecdsa-"):
		identity = "id_ecdsa"
	}
	files := sshkeys.ConfigFiles{Identity: filepath.Join(dir, identity), KnownHosts: filepath.Join(dir, knownHostsFile)}
	options, err := sshkeys.ConfigOptions(m.Name, access, files)
	if err != nil {
		return nil, err
	}
	config, err := sshkeys.Config(m.Name, access, files)
	if err != nil {
		return nil, err
	}
	mark := fmt.Sprintf("# Written by drover for %s %s/%s, %s.\n", m.Kind.Name, m.Namespace, m.Name, m.UID)
	return &KeyFiles{Dir: dir, mark: mark, access: access, options: options, Files: []KeyFile{
		// The config is written first. Its mark names the machine that owns the files, even if
		// writing is interrupted.
		{configFile, []byte(mark + config)},
		// OpenSSH does not read a key whose last line has no end.
		{identity, fmt.Appendf(nil, "%s\n", bytes.TrimSpace(access.PrivateKey))},
		{identity + ".pub", ssh.MarshalAuthorizedKey(signer.PublicKey())},
		{knownHostsFile, knownHosts},
	}}, nil
}

// SSHCommand is the command line with which the user's own ssh logs in.
func (k *KeyFiles) SSHCommand() string {
	config := filepath.Join(k.Dir, configFile)
	return "ssh -F " + facts.Word(config) + " " + filepath.Base(k.Dir)
}

// Write writes the files. Files that are not this machine's are overwritten with force only.
func (k *KeyFiles) Write(force bool) error {
	// If another user put a link here, following it would write keys and change modes elsewhere.
	if info, err := os.Lstat(k.Dir); err == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a directory: choose another --dir", k.Dir)
	}
	if err := os.MkdirAll(k.Dir, 0o700); err != nil {
		return fmt.Errorf("making the directory: %w", err)
	}
	root, err := os.OpenRoot(k.Dir)
	if err != nil {
		return fmt.Errorf("opening the directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	if !force {
		if err := k.checkForeign(root); err != nil {
			return err
		}
	}
	if err := root.Chmod(".", 0o700); err != nil {
		return fmt.Errorf("closing the directory to others: %w", err)
	}
	for _, file := range k.Files {
		if err := writeFile(root, file); err != nil {
			return fmt.Errorf("writing %s: %w", filepath.Join(k.Dir, file.Name), err)
		}
	}
	return nil
}

// checkForeign finds files that would be overwritten though they are not this machine's.
func (k *KeyFiles) checkForeign(root *os.Root) error {
	config, err := root.ReadFile(configFile)
	if err == nil && bytes.HasPrefix(config, []byte(k.mark)) {
		return nil
	}
	var foreign []string
	for _, file := range k.Files {
		content, err := root.ReadFile(file.Name)
		if errors.Is(err, fs.ErrNotExist) || (err == nil && bytes.Equal(content, file.Content)) {
			continue
		}
		foreign = append(foreign, file.Name)
	}
	if len(foreign) > 0 {
		return fmt.Errorf("%s in %s was not written for this machine: choose another --dir, or overwrite with --force", strings.Join(foreign, ", "), k.Dir)
	}
	return nil
}

// writeFile replaces the whole file. No other user can read it at any time, and no link is
// followed.
func writeFile(root *os.Root, file KeyFile) error {
	temporary := "." + file.Name + ".new"
	if err := root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	handle, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = handle.Write(file.Content)
	if err := errors.Join(err, handle.Close()); err != nil {
		return err
	}
	return root.Rename(temporary, file.Name)
}
