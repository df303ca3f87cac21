package access

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/agent"
	"github.com/drover-project/drover/api/connect"
)

// requestTimeout bounds one request to the endpoint.
const requestTimeout = time.Minute

// renew sends one request to register or renew, and another when the endpoint says that our clock
// is wrong.
func (a *Access) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, status, err := a.ask(ctx)
	if err == nil && status == http.StatusConflict {
		answer, status, err = a.ask(ctx)
	}
	if err != nil {
		return fmt.Errorf("asking the endpoint for access: %w", err)
	}
	if status != http.StatusOK {
		return fmt.Errorf("asking the endpoint for access: it answers %d %s: %.200q", status, http.StatusText(status), answer)
	}
	decoded, err := connect.DecodeAnswer(answer)
	if err != nil {
		return err
	}
	return a.keep(decoded)
}

// ask sends one request. After the registration it carries no token: the key identifies the agent.
func (a *Access) ask(ctx context.Context) ([]byte, int, error) {
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce) // never fails
	body, err := json.Marshal(connect.Request{PublicKey: a.key.Public().(ed25519.PublicKey), Time: a.o.Clock.Now().Add(a.offset).UTC(), Nonce: nonce,
		Namespace: a.saved.Namespace, SecretName: a.saved.SecretName, Hostname: a.o.Hostname, Platform: a.o.Platform, Version: a.o.Version,
		CloudServer: a.o.CloudServer})
	if err != nil {
		return nil, 0, err
	}
	url := a.current.server.JoinPath(connect.Path)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(connect.SignatureHeader, connect.Sign(a.key, body))
	if a.saved.SecretName == "" && a.current.token != "" {
		request.Header.Set("Authorization", "Bearer "+a.current.token)
	}
	if a.saved.Ticket != "" {
		request.Header.Set(connect.TicketHeader, a.saved.Ticket)
	}
	response, err := a.current.sender.RoundTrip(request) // no redirect is followed
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, connect.MaxAnswerBytes+1))
	if at, dateErr := http.ParseTime(response.Header.Get("Date")); dateErr == nil && response.StatusCode == http.StatusConflict {
		a.offset = at.Sub(a.o.Clock.Now())
	}
	return answer, response.StatusCode, err
}

// readKey reads the agent's key or creates it. The key is on disk before its first use, so that a
// repeated request uses the same key.
func readKey(path string) (ed25519.PrivateKey, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the agent's key: %w", err)
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("reading the agent's key: %s is not PEM", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("reading the agent's key: %s holds no ed25519 key", path)
	}
	return key, nil
}

func makeKey(path string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the agent's key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("making the agent's key: %w", err)
	}
	err = os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = agent.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("writing the agent's key: %w", err)
	}
	return key, nil
}
