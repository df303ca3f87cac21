package pki

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-project/drover/localkube/datadir"
)

// Role is what a join token entitles to.
type Role string

// The roles a token can have.
const (
	RoleServer Role = "server"
	RoleAgent  Role = "agent"
)

const tokenVersion = "lk1"

// Token lets a machine join: it pins the cluster's authority and carries a
// secret. Its text form is lk1.<sha256 of the CA certificate>.<secret>.
type Token struct {
	Fingerprint string
	Secret      string
}

// String is the text form.
func (t Token) String() string {
	return strings.Join([]string{tokenVersion, t.Fingerprint, t.Secret}, ".")
}

// ParseToken reads the text form.
func ParseToken(text string) (Token, error) {
	parts := strings.Split(strings.TrimSpace(text), ".")
	if len(parts) != 3 || parts[0] != tokenVersion || len(parts[1]) != 2*sha256.Size || parts[2] == "" {
		return Token{}, errors.New("reading join token: not of the form lk1.<fingerprint>.<secret>")
	}
	if _, err := hex.DecodeString(parts[1]); err != nil {
		return Token{}, errors.New("reading join token: the fingerprint is not hexadecimal")
	}
	return Token{Fingerprint: parts[1], Secret: parts[2]}, nil
}

// Verify checks that a certificate is the pinned authority.
func (t Token) Verify(ca []byte) (*x509.Certificate, error) {
	cert, err := parseCertificate(ca)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(fingerprint(cert)), []byte(t.Fingerprint)) != 1 {
		return nil, errors.New("the server's certificate authority is not the one the join token names")
	}
	return cert, nil
}

// Token returns the token of a role and makes it when it is missing.
func (s *Store) Token(role Role) (Token, error) {
	path := filepath.Join(s.dir, "token-"+string(role))
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		secret := make([]byte, 20)
		if _, err := rand.Read(secret); err != nil {
			return Token{}, fmt.Errorf("making join token: %w", err)
		}
		token := Token{Fingerprint: s.Cluster.Fingerprint(), Secret: hex.EncodeToString(secret)}
		return token, datadir.WriteFile(path, []byte(token.String()+"\n"))
	}
	if err != nil {
		return Token{}, fmt.Errorf("reading join token: %w", err)
	}
	return ParseToken(string(raw))
}

// Admits compares a presented secret with the role's token in constant time.
func (s *Store) Admits(role Role, secret string) (bool, error) {
	token, err := s.Token(role)
	if err != nil {
		return false, err
	}
	want, have := sha256.Sum256([]byte(token.Secret)), sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(want[:], have[:]) == 1, nil
}
