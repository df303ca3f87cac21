package account

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"sync"
)

// Tokens are the API tokens; they can change while the cloud runs.
type Tokens struct {
	mu      sync.Mutex
	secrets map[string]string // by name
}

// NewTokens returns tokens with the given secrets, by name.
func NewTokens(secrets map[string]string) *Tokens {
	t := &Tokens{secrets: map[string]string{}}
	maps.Copy(t.secrets, secrets)
	return t
}

// Add creates a named token and returns its secret, in the form of the real API. A name that is
// taken is rejected: replacing its token would lock its users out.
func (t *Tokens) Add(name string) (string, error) {
	if name == "" {
		return "", errors.New("adding token: it has no name")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, taken := t.secrets[name]; taken {
		return "", fmt.Errorf("adding token: the name %q is taken", name)
	}
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	t.secrets[name] = "dop_v1_" + hex.EncodeToString(random[:])
	return t.secrets[name], nil
}

// Revoke makes the API answer 401 to the token.
func (t *Tokens) Revoke(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.secrets[name]; !ok {
		return fmt.Errorf("revoking token: no token is named %q", name)
	}
	delete(t.secrets, name)
	return nil
}

// Secret returns the secret of the named token, or nothing.
func (t *Tokens) Secret(name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.secrets[name]
}

// Check returns the name of the token with the secret; ok says whether there is one.
func (t *Tokens) Check(secret string) (name string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, known := range t.secrets {
		if known == secret && secret != "" {
			return name, true
		}
	}
	return "", false
}
