package join

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/drover-project/drover/localkube/pki"
)

const callTimeout = 30 * time.Second

// Client speaks to a server that is to be joined.
type Client struct {
	url   string
	token pki.Token
	ca    []byte
	http  *http.Client
}

// Dial fetches the cluster's authority and checks it against the token; the
// secret is sent to nobody else.
func Dial(ctx context.Context, server string, token pki.Token) (*Client, error) {
	parsed, err := url.Parse(server)
	if err != nil || parsed.Scheme != "https" || parsed.Host == "" {
		return nil, fmt.Errorf("joining %q: not the https URL at which a server says that machines can join", server)
	}
	// Nothing is trusted yet, and nothing secret is sent: what comes back is
	// compared with the fingerprint in the token.
	blind := newHTTP(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // pinned below
	c := &Client{url: strings.TrimSuffix(server, "/"), token: token, http: blind}
	if c.ca, err = c.do(ctx, http.MethodGet, "/v1/ca", nil, false); err != nil {
		return nil, err
	}
	cert, err := token.Verify(c.ca)
	if err != nil {
		return nil, fmt.Errorf("joining %s: %w", server, err)
	}
	if now := time.Now(); now.Before(cert.NotBefore) || now.After(cert.NotAfter) {
		return nil, fmt.Errorf("joining %s: its certificate authority is valid from %s to %s and this machine's clock says %s: set the clock",
			server, stamp(cert.NotBefore), stamp(cert.NotAfter), stamp(now))
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	c.http = newHTTP(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})
	return c, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func newHTTP(config *tls.Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true},
		Timeout:   callTimeout,
		// A server of ours never sends anybody elsewhere, and the token is for it alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// CA is the cluster's authority, PEM.
func (c *Client) CA() []byte { return c.ca }

// AddAgent asks for the identities of a node.
func (c *Client) AddAgent(ctx context.Context, req AgentRequest) (AgentResponse, error) {
	return call[AgentResponse](ctx, c, "/v1/agent", req)
}

// AddServer asks to become a member of etcd.
func (c *Client) AddServer(ctx context.Context, req ServerRequest) (ServerResponse, error) {
	return call[ServerResponse](ctx, c, "/v1/server", req)
}

// Promote asks for the vote until the member has caught up, or is told that it
// will never have it.
func (c *Client) Promote(ctx context.Context, req PromoteRequest) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := call[struct{}](ctx, c, "/v1/server/promote", req)
		if err == nil || errors.Is(err, ErrDenied) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

func call[Out any](ctx context.Context, c *Client, path string, in any) (Out, error) {
	var out Out
	raw, err := json.Marshal(in)
	if err != nil {
		return out, fmt.Errorf("encoding request: %w", err)
	}
	body, err := c.do(ctx, http.MethodPost, path, raw, true)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return out, fmt.Errorf("reading answer of %s: %w", c.url+path, err)
	}
	return out, nil
}

func (c *Client) do(ctx context.Context, method, path string, body []byte, authorise bool) (out []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", c.url+path, err)
	}
	if authorise {
		req.Header.Set("Authorization", "Bearer "+c.token.Secret)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the cluster to join: %w", err)
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	out, err = io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", c.url+path, err)
	}
	if res.StatusCode == http.StatusOK {
		return out, nil
	}
	refused := refusal{asked: c.url + path, status: res.Status, said: excerpt(out)}
	switch {
	case res.StatusCode == http.StatusUnauthorized && res.Header.Get(challengeHeader) == expiredChallenge:
		refused.kind = errors.Join(ErrDenied, pki.ErrTokenExpired)
	case res.StatusCode == http.StatusUnauthorized, res.StatusCode == http.StatusForbidden:
		refused.kind = ErrDenied
	}
	return nil, refused
}

// refusal is an answer other than the wanted one.
type refusal struct {
	asked, status, said string
	kind                error
}

// Error implements error.
func (r refusal) Error() string { return fmt.Sprintf("asking %s: %s: %s", r.asked, r.status, r.said) }

// Unwrap tells errors.Is what kind of refusal it is.
func (r refusal) Unwrap() error { return r.kind }

// excerpt is what fits into an error message of what came over the network,
// in one line: whoever answers at a wrong URL may send a page.
func excerpt(body []byte) string {
	const most = 400
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(body), "?")), " ")
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + " …"
	}
	return text
}
