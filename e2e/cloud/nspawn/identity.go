package nspawn

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/ssh"
)

const (
	hostKeyFile   = "etc/ssh/ssh_host_ed25519_key"
	machineIDFile = "etc/machine-id"
)

// identity returns the files that must be unlike those of any other server:
// its SSH host key and its machine id. Made here, the key is known before the
// first contact, and the server need not spend its boot on making it.
func identity() (private, public, machineID string, err error) {
	publicKey, privateKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", "", fmt.Errorf("generating host key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(privateKey, "")
	if err != nil {
		return "", "", "", fmt.Errorf("encoding host key: %w", err)
	}
	sshPublic, err := ssh.NewPublicKey(publicKey)
	if err != nil {
		return "", "", "", fmt.Errorf("encoding host key: %w", err)
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return string(pem.EncodeToMemory(block)), string(ssh.MarshalAuthorizedKey(sshPublic)), hex.EncodeToString(id[:]) + "\n", nil
}
