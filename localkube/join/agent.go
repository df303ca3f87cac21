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
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/drover-project/drover/localkube/identity"
)

// askEvery is how long an agent waits for a server that does not answer.
const askEvery = 2 * time.Second

// ErrRefused says that asking again is of no use.
var ErrRefused = errors.New("the server does not let it join")

// Ask asks a server until it answers or the context ends. The server is the API server's URL.
func Ask(ctx context.Context, server string, token Token, request identity.Request) (identity.Answer, error) {
	at, err := url.Parse(server)
	if err != nil {
		return identity.Answer{}, fmt.Errorf("reading the server's address: %w", err)
	}
	return ask(ctx, "https://"+net.JoinHostPort(at.Hostname(), Port), token, request)
}

func ask(ctx context.Context, server string, token Token, request identity.Request) (answer identity.Answer, err error) {
	var last error
	err = wait.PollUntilContextCancel(ctx, askEvery, true, func(ctx context.Context) (bool, error) {
		answer, last = once(ctx, server, token, request)
		if errors.Is(last, ErrRefused) {
			return false, last
		}
		return last == nil, nil
	})
	switch {
	case err == nil:
		return answer, nil
	case errors.Is(err, ErrRefused):
		return answer, err
	}
	return answer, fmt.Errorf("joining %s: %w", server, errors.Join(context.Cause(ctx), last))
}

func once(ctx context.Context, server string, token Token, request identity.Request) (identity.Answer, error) {
	var answer identity.Answer
	// The answer is trusted only by its checksum.
	stranger := client(&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // nothing is sent, and the answer is verified
	authority, err := do(ctx, stranger, http.MethodGet, server+caPath, token, nil)
	if err != nil {
		return answer, err
	}
	if !token.trusts(authority) {
		return answer, fmt.Errorf("%w: its authority is another than the token names", ErrRefused)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	body, err := json.Marshal(request)
	if err != nil {
		return answer, fmt.Errorf("encoding the request to join: %w", err)
	}
	content, err := do(ctx, client(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}), http.MethodPost, server+nodePath, token, body)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(content, &answer); err != nil {
		return answer, fmt.Errorf("reading the server's answer: %w", err)
	}
	return answer, nil
}

// client connects to the server directly: proxies are for external addresses.
func client(config *tls.Config) *http.Client {
	return &http.Client{Timeout: timeout, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
}

func do(ctx context.Context, c *http.Client, method, at string, token Token, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.SetBasicAuth(token.user, token.password)
	}
	response, err := c.Do(request)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, maxBytes))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, fmt.Errorf("reading the server's answer: %w", err)
	}
	switch said := strings.TrimSpace(string(content)); {
	case response.StatusCode == http.StatusOK:
		return content, nil
	case response.StatusCode >= http.StatusInternalServerError:
		return nil, fmt.Errorf("%s: %s", response.Status, said)
	default:
		return nil, fmt.Errorf("%w: %s: %s", ErrRefused, response.Status, said)
	}
}
