package connect

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"strings"
)

// Token is a bootstrap token: it lets the agent of one machine register once. It names the plan Secret, so that any replica finds what it is
// good for with one request; the rest is random. What is stored of it is its Hash.
type Token struct {
	Namespace, SecretName string
	random                string
}

const (
	tokenPrefix = "drover"
	// maxToken is far above a namespace, a Secret's name and what is random.
	maxToken = 512
	// minRandom is what rand.Text gives: 128 bits and more.
	minRandom = 26
)

// NewToken makes a token for a plan Secret.
func NewToken(namespace, secretName string) Token {
	return Token{Namespace: namespace, SecretName: secretName, random: rand.Text()}
}

// String is what stands in the bootstrap data and what the agent sends as bearer token. It is a secret.
func (t Token) String() string {
	return strings.Join([]string{tokenPrefix, t.Namespace, t.SecretName, t.random}, "/")
}

// Hash is what may be stored, lower-case hex of a SHA-256. The token is random, so that a plain hash cannot be guessed back.
func (t Token) Hash() string {
	sum := sha256.Sum256([]byte(t.String()))
	return hex.EncodeToString(sum[:])
}

// Matches reports whether a stored hash is that of the token, in a time that tells nothing.
func (t Token) Matches(hash string) bool {
	return subtle.ConstantTimeCompare([]byte(t.Hash()), []byte(hash)) == 1
}

// ParseToken reads what String wrote. The error repeats nothing of it.
func ParseToken(s string) (Token, error) {
	parts := strings.Split(s, "/")
	if len(s) > maxToken || len(parts) != 4 || parts[0] != tokenPrefix || len(parts[3]) < minRandom ||
		!validNamespace(parts[1]) || !validSecretName(parts[2]) {
		return Token{}, errors.New("it is no bootstrap token")
	}
	return Token{Namespace: parts[1], SecretName: parts[2], random: parts[3]}, nil
}
