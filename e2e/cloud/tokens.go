package cloud

import (
	"time"

	"github.com/drover-project/drover/e2e/cloud/account"
)

// Tokens returns all API tokens with their secrets.
func (c *Cloud) Tokens() []account.Token { return c.tokens.List() }

// AddToken makes a new API token. A name that is taken is refused: whoever
// uses that token would be locked out.
func (c *Cloud) AddToken(name string, readOnly bool) (account.Token, error) {
	token := account.Token{Name: name, Secret: account.NewSecret(), ReadOnly: readOnly}
	if err := c.tokens.Add(token); err != nil {
		return account.Token{}, err
	}
	return token, c.state.saveTokens(c.tokens)
}

// RevokeToken makes the API answer 401 to the token.
func (c *Cloud) RevokeToken(name string) error {
	if err := c.tokens.Revoke(name); err != nil {
		return err
	}
	return c.state.saveTokens(c.tokens)
}

// RestoreToken takes a revocation or an expiry back.
func (c *Cloud) RestoreToken(name string) error {
	if err := c.tokens.Restore(name); err != nil {
		return err
	}
	return c.state.saveTokens(c.tokens)
}

// ExpireToken makes the API answer 401 to the token from the given time on.
func (c *Cloud) ExpireToken(name string, at time.Time) error {
	if err := c.tokens.Expire(name, at); err != nil {
		return err
	}
	return c.state.saveTokens(c.tokens)
}
