package sshkeys

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

const (
	maxKnownHostsBytes = 64 << 10
	maxHostKeys        = 64
)

// KnownHostsLine is the known_hosts line of a server's host key.
func KnownHostsLine(host string, port int, key ssh.PublicKey) []byte {
	address := knownhosts.Normalize(net.JoinHostPort(host, fmt.Sprint(port)))
	return []byte(knownhosts.Line([]string{address}, key) + "\n")
}

// HostKeys reads known_hosts lines and returns the keys to accept. Which host a line names does not
// matter here: the lines of a state Secret belong to one server, whose address may change while its
// key does not. Lines marked @revoked or @cert-authority give no key.
func HostKeys(lines []byte) ([]ssh.PublicKey, error) {
	if len(lines) > maxKnownHostsBytes {
		return nil, fmt.Errorf("reading known hosts: %d bytes, at most %d are accepted", len(lines), maxKnownHostsBytes)
	}
	var keys []ssh.PublicKey
	for rest := lines; ; {
		marker, _, key, _, next, err := ssh.ParseKnownHosts(rest)
		if errors.Is(err, io.EOF) {
			return keys, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading known hosts: %w", err)
		}
		if len(keys) == maxHostKeys {
			return nil, fmt.Errorf("reading known hosts: more than %d keys", maxHostKeys)
		}
		if marker == "" {
			keys = append(keys, key)
		}
		rest = next
	}
}

// RenameKnownHosts returns the same keys under other names: an alias, for a known_hosts file that
// is used with HostKeyAlias, and addresses (host or host:port).
func RenameKnownHosts(lines []byte, names ...string) ([]byte, error) {
	keys, err := HostKeys(lines)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, key := range keys {
		out.WriteString(knownhosts.Line(names, key) + "\n")
	}
	return out.Bytes(), nil
}

// hostKeyCallback accepts exactly keys. Without keys it calls learn, and without learn it rejects
// every key.
func hostKeyCallback(access Access, keys []ssh.PublicKey, learn func([]byte) error) ssh.HostKeyCallback {
	return func(_ string, _ net.Addr, key ssh.PublicKey) error {
		if len(keys) == 0 {
			if learn == nil {
				return ErrHostKeyUnknown
			}
			return learn(KnownHostsLine(access.Host, access.Port, key))
		}
		for _, known := range keys {
			if bytes.Equal(known.Marshal(), key.Marshal()) {
				return nil
			}
		}
		return fmt.Errorf("%w: it shows %s %s", ErrHostKeyChanged, key.Type(), ssh.FingerprintSHA256(key))
	}
}

// hostKeyAlgorithms makes the server present a key of a recorded type, because it may have several;
// nil leaves the choice open.
func hostKeyAlgorithms(keys []ssh.PublicKey) []string {
	var algorithms []string
	for _, key := range keys {
		names := []string{key.Type()}
		if key.Type() == ssh.KeyAlgoRSA {
			names = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		for _, name := range names {
			if !slices.Contains(algorithms, name) {
				algorithms = append(algorithms, name)
			}
		}
	}
	return algorithms
}
