package sshkeys

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

const maxKeyBytes = 64 << 10

// KeyPair is a private key in OpenSSH's form and its authorized_keys line.
type KeyPair struct {
	Private []byte
	Public  []byte
}

// Generate makes an ed25519 key. The comment names the machine in authorized_keys.
func Generate(comment string) (KeyPair, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return KeyPair{}, fmt.Errorf("generating an SSH key: %w", err)
	}
	comment = strings.Join(strings.Fields(comment), "_")
	block, err := ssh.MarshalPrivateKey(private, comment)
	if err != nil {
		return KeyPair{}, fmt.Errorf("encoding an SSH key: %w", err)
	}
	pair := KeyPair{Private: pem.EncodeToMemory(block)}
	pair.Public, err = PublicOf(pair.Private, comment)
	return pair, err
}

// PublicOf returns the authorized_keys line of a private key. The error never quotes the key.
func PublicOf(private []byte, comment string) ([]byte, error) {
	if len(private) > maxKeyBytes {
		return nil, fmt.Errorf("reading an SSH private key: %d bytes, at most %d are accepted", len(private), maxKeyBytes)
	}
	signer, err := ssh.ParsePrivateKey(private)
	if err != nil {
		return nil, errors.New("reading an SSH private key: it is no OpenSSH or PEM key without passphrase")
	}
	line := strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(signer.PublicKey())), "\n")
	if comment = strings.Join(strings.Fields(comment), "_"); comment != "" {
		line += " " + comment
	}
	return []byte(line + "\n"), nil
}
