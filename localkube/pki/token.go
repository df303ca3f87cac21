package pki

import (
	"crypto/hmac"
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
	"strconv"
	"strings"
	"time"

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
// secret. Its text form is lk1.<sha256 of the CA certificate>.<secret>; the
// secret of one that expires begins with the Unix time at which it does.
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
	if strings.TrimSpace(text) == "" {
		return Token{}, errors.New("no join token given: set --token-file to a copy of the server's DATA/pki/token-agent, or token-server for a further server")
	}
	parts := strings.Split(strings.TrimSpace(text), ".")
	if len(parts) != 3 || parts[0] != tokenVersion || len(parts[1]) != 2*sha256.Size || parts[2] == "" {
		return Token{}, errors.New("reading join token: not of the form lk1.<fingerprint>.<secret>")
	}
	if _, err := hex.DecodeString(parts[1]); err != nil {
		return Token{}, errors.New("reading join token: the fingerprint is not hexadecimal")
	}
	if strings.ContainsFunc(parts[2], func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Token{}, errors.New("reading join token: the secret has characters that no token has")
	}
	return Token{Fingerprint: strings.ToLower(parts[1]), Secret: parts[2]}, nil
}

// Verify checks that a certificate is the pinned authority.
func (t Token) Verify(ca []byte) (*x509.Certificate, error) {
	cert, err := parseCertificate(ca)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(fingerprint(cert)), []byte(t.Fingerprint)) != 1 {
		return nil, errors.New("the server's certificate authority is not the one the join token names: " +
			"take the token from a server of that cluster, or correct the URL")
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
	token, err := ParseToken(string(raw))
	if err != nil {
		return Token{}, fmt.Errorf("%s: %w", path, err)
	}
	return token, nil
}

// Why a secret does not let anybody in.
var (
	ErrTokenUnknown = errors.New("the join token is not valid for this: " +
		"a node needs the content of a server's DATA/pki/token-agent, a further server that of token-server")
	ErrTokenExpired = errors.New("the join token has expired: make a new one with localkube token")
)

// Temporary makes a token that lets in until a time. It is derived from the
// role's own token and stored nowhere, so every server of the cluster knows it,
// and a new token of the role ends all that were derived from the old one.
func (s *Store) Temporary(role Role, until time.Time) (Token, error) {
	token, err := s.Token(role)
	if err != nil {
		return Token{}, err
	}
	token.Secret = temporarySecret(token.Secret, role, strconv.FormatInt(until.Unix(), 10))
	return token, nil
}

func temporarySecret(secret string, role Role, until string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(string(role) + " until " + until))
	return until + "-" + hex.EncodeToString(mac.Sum(nil))
}

// Admits compares a presented secret with the role's token in constant time.
// It fails with ErrTokenUnknown or ErrTokenExpired.
func (s *Store) Admits(role Role, secret string) error {
	token, err := s.Token(role)
	if err != nil {
		return err
	}
	if same(secret, token.Secret) {
		return nil
	}
	until, _, found := strings.Cut(secret, "-")
	if !found || !same(secret, temporarySecret(token.Secret, role, until)) {
		return ErrTokenUnknown
	}
	// Only we can have made it, so the number is one.
	if seconds, err := strconv.ParseInt(until, 10, 64); err != nil || time.Now().Unix() >= seconds {
		return ErrTokenExpired
	}
	return nil
}

func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
