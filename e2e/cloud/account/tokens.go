package account

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Token is one API token of the account.
type Token struct {
	Name     string `json:"name"`
	Secret   string `json:"secret"`
	Revoked  bool   `json:"revoked,omitempty"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// Tokens are the API tokens; they can change while the cloud runs.
type Tokens struct {
	mu     sync.Mutex
	byName map[string]Token
}

// NewTokens returns the given tokens.
func NewTokens(tokens ...Token) *Tokens {
	t := &Tokens{byName: map[string]Token{}}
	for _, token := range tokens {
		t.byName[token.Name] = token
	}
	return t
}

// NewSecret returns a fresh secret of the form the real API uses.
func NewSecret() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	return "dop_v1_" + hex.EncodeToString(secret)
}

// Add adds a token under a name of its own.
func (t *Tokens) Add(token Token) error {
	if token.Name == "" {
		return errors.New("adding token: it has no name")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, taken := t.byName[token.Name]; taken {
		return fmt.Errorf("adding token: the name %q is taken", token.Name)
	}
	t.byName[token.Name] = token
	return nil
}

// Revoke makes the API refuse the token.
func (t *Tokens) Revoke(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	token, ok := t.byName[name]
	if !ok {
		return fmt.Errorf("changing token: no token is named %q", name)
	}
	token.Revoked = true
	t.byName[name] = token
	return nil
}

// Secret returns the secret of the named token, or nothing.
func (t *Tokens) Secret(name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byName[name].Secret
}

// Check returns the token with the secret; ok says whether it is good now. Of
// several with one secret, a good one counts, and among those the first by name.
func (t *Tokens) Check(secret string) (token Token, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if secret == "" {
		return Token{}, false
	}
	for _, name := range slices.Sorted(maps.Keys(t.byName)) {
		found := t.byName[name]
		if found.Secret != secret {
			continue
		}
		if !found.Revoked {
			return found, true
		}
		if token.Secret == "" {
			token = found
		}
	}
	return token, false
}
