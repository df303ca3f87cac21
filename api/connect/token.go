package connect

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"strings"
)

// Token is a bootstrap token: it lets the agent of one machine register once. It names the plan
// Secret, so that any replica finds the machine with one request; the rest is random. Only its Hash
// is stored.
type Token struct {
	Namespace, SecretName string
	random                string
}

const (
	tokenPrefix = "drover"
	// maxToken is far above the length of a namespace, a Secret's name and the random part.
	maxToken = 512
	// minRandom is the length of rand.Text: 128 bits and more.
	minRandom = 26
)

// NewToken makes a token for a plan Secret.
func NewToken(namespace, secretName string) Token {
	return Token{Namespace: namespace, SecretName: secretName, random: rand.Text()}
}

// String returns the token for the bootstrap data; the agent sends it as bearer token. It is a
// secret.
func (t Token) String() string {
	return strings.Join([]string{tokenPrefix, t.Namespace, t.SecretName, t.random}, "/")
}

// Hash is the stored form, lower-case hex of a SHA-256. The token is random, so a plain hash cannot
// be reversed by guessing.
func (t Token) Hash() string {
	sum := sha256.Sum256([]byte(t.String()))
	return hex.EncodeToString(sum[:])
}

// Matches compares a stored hash with the hash of the token in constant time.
func (t Token) Matches(hash string) bool {
	return subtle.ConstantTimeCompare([]byte(t.Hash()), []byte(hash)) == 1
}

// ParseToken reads the result of String. The error does not quote it.
func ParseToken(s string) (Token, error) {
	parts := strings.Split(s, "/")
	if len(s) > maxToken || len(parts) != 4 || parts[0] != tokenPrefix || len(parts[3]) < minRandom ||
		!validNamespace(parts[1]) || !validSecretName(parts[2]) {
		return Token{}, errors.New("it is not a bootstrap token")
	}
	return Token{Namespace: parts[1], SecretName: parts[2], random: parts[3]}, nil
}
