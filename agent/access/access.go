package access

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/agent"
	"github.com/drover-project/drover/agent/proxy"
	"github.com/drover-project/drover/api/connect"
)

// Options of an agent's access.
type Options struct {
	// ConnectionFile has the last answer, KeyFile the agent's key. Both are made when they are
	// missing.
	ConnectionFile, KeyFile string
	// Server and CA, PEM, are the endpoint's for an agent that is not registered yet, or was with
	// another Server and CA. TokenFile has its bootstrap token; it is deleted when the agent is
	// registered. Without Server the connection file has to be there, and its token is never
	// renewed.
	Server    string
	CA        []byte
	TokenFile string
	// Hostname, Platform and Version are sent to the endpoint.
	Hostname, Platform, Version string
	// CloudServer is also sent to the endpoint (see connect.Request).
	CloudServer string
	// Proxies of requests to the endpoint; nil uses none.
	Proxies *proxy.Proxies
	Clock   clock.Clock
	Log     logr.Logger
}

// Access is a registered agent's access. It is the transport of a client whose requests it sends to
// the endpoint, whatever host they name.
type Access struct {
	o   Options
	key ed25519.PrivateKey

	mu      sync.Mutex
	saved   Saved
	current *target
	// unwritten reports that saved is not in the connection file yet.
	unwritten bool
	// offset is the difference of the endpoint's clock to the local clock.
	offset time.Duration
	// failed is the error of the last renewal. The next renewal is not before notYet.
	failed  error
	notYet  time.Time
	backoff wait.Backoff
}

// Saved is the connection file: the endpoint's answer, in the form of Rancher's agent, and the
// agent's own fields.
type Saved struct {
	connect.Answer
	Received
}

// Received is when an answer came, and the checksum of the Server and CA that the agent had been
// configured with.
type Received struct {
	ReceivedAt time.Time `json:"receivedAt,omitzero"`
	Configured string    `json:"configured,omitempty"`
}

var _ http.RoundTripper = (*Access)(nil)

// Open reads the connection file or registers. It tries to register until the context ends. If
// Server or CA differ from those in the connection file, the agent registers again with its key,
// because a user has changed its configuration. It also registers once if the file has no checksum
// of them, or no time of the answer, as Rancher's has: a key of ours cannot renew such a token.
func Open(ctx context.Context, o Options) (*Access, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	key, err := readKey(o.KeyFile)
	if err != nil {
		return nil, err
	}
	a := &Access{o: o, key: key, backoff: firstBackoff}
	saved, err := ReadSaved(o.ConnectionFile)
	switch {
	case err == nil && o.Server != "" && !saved.ReceivedAt.IsZero() && saved.Configured != o.configured():
		o.Log.Info("The configuration may name another endpoint or other CA certificates than before")
		a.saved = saved
		return a, a.register(ctx)
	case err == nil:
		if a.current, err = a.targetOf(saved.Answer); err != nil {
			return nil, fmt.Errorf("reading %s: %w", o.ConnectionFile, err)
		}
		a.saved = saved
		a.forgetToken()
		return a, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case o.Server == "":
		return nil, fmt.Errorf("connection file %s does not exist, and no server to register at is set", o.ConnectionFile)
	}
	return a, a.register(ctx)
}

// configured is a checksum of the endpoint's address and certificates.
func (o *Options) configured() string {
	sum := sha256.Sum256(append([]byte(o.Server+"\n"), o.CA...))
	return hex.EncodeToString(sum[:])
}

// ReadSaved reads a connection file.
func ReadSaved(path string) (Saved, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Saved{}, fmt.Errorf("reading the connection file: %w", err)
	}
	if info.Size() > 2*connect.MaxAnswerBytes {
		return Saved{}, fmt.Errorf("reading the connection file %s: it is larger than any answer", path)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return Saved{}, fmt.Errorf("reading the connection file: %w", err)
	}
	return parseSaved(content)
}

func parseSaved(content []byte) (Saved, error) {
	answer, err := connect.DecodeAnswer(content)
	if err != nil {
		return Saved{}, fmt.Errorf("reading the connection file: %w", err)
	}
	saved := Saved{Answer: answer}
	if err := json.Unmarshal(content, &saved.Received); err != nil {
		return Saved{}, fmt.Errorf("reading the connection file: %w", err)
	}
	return saved, nil
}

// Secret is the plan Secret's namespace and name.
func (a *Access) Secret() (namespace, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.saved.Namespace, a.saved.SecretName
}

// CAChecksum identifies the certificates that verify the endpoint now; empty for the system's.
func (a *Access) CAChecksum() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.current.ca) == 0 {
		return ""
	}
	sum := sha256.Sum256(a.current.ca)
	return hex.EncodeToString(sum[:])
}

// register retries until it gets an answer. A server may boot before the manager knows it, and the
// manager may accept a rejected token soon.
func (a *Access) register(ctx context.Context) error {
	token, err := os.ReadFile(a.o.TokenFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // without it the endpoint may still know the key
		return fmt.Errorf("reading the bootstrap token: %w", err)
	}
	first, err := newTarget(a.o.Server, a.o.CA, strings.TrimSpace(string(token)), a.o.Proxies)
	if err != nil {
		return err
	}
	a.current = first
	for {
		a.o.Log.Info("Registering", "server", first.server.Host)
		err := a.renew(ctx)
		if err == nil {
			return nil
		}
		after := a.backoff.Step()
		a.o.Log.Error(err, "Not registered yet", "trying again after", after.Round(time.Second).String())
		timer := a.o.Clock.NewTimer(after)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C():
		}
	}
}

// RoundTrip sends a request to the endpoint with the token of the moment, and once more with a new
// one when that is refused.
func (a *Access) RoundTrip(request *http.Request) (*http.Response, error) {
	var body []byte
	if request.Body != nil {
		var err error
		body, err = io.ReadAll(request.Body)
		if err = errors.Join(err, request.Body.Close()); err != nil {
			return nil, err
		}
	}
	t, err := a.fresh(request.Context(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := t.send(request, body)
	if err != nil || !a.isRefused(answer.StatusCode) {
		return answer, err
	}
	_ = answer.Body.Close()
	if t, err = a.fresh(request.Context(), t); err != nil {
		return nil, err
	}
	return t.send(request, body)
}

// staleTicket is the age from which on a ticket may be one that the endpoint does not know any more.
const staleTicket = 5 * time.Minute

// isRefused reports whether the endpoint rejects our token, or limits our address as unknown
// callers are limited.
func (a *Access) isRefused(status int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return status == http.StatusUnauthorized ||
		status == http.StatusTooManyRequests && a.saved.Ticket != "" && a.o.Clock.Since(a.saved.ReceivedAt) > staleTicket
}

func (t *target) send(request *http.Request, body []byte) (*http.Response, error) {
	out := request.Clone(request.Context())
	out.URL.Scheme, out.URL.Host, out.Host = t.server.Scheme, t.server.Host, ""
	out.URL.Path = strings.TrimSuffix(t.server.Path, "/") + request.URL.Path
	out.Header.Set("Authorization", "Bearer "+t.token)
	if body != nil {
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		out.Body, _ = out.GetBody()
	}
	return t.sender.RoundTrip(out)
}

// fresh is a target whose token is not the refused one, and not past half its life if that can be
// helped.
func (a *Access) fresh(ctx context.Context, refused *target) (*target, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unwritten {
		a.write()
	}
	if a.current != refused && !a.isHalfway() {
		return a.current, nil
	}
	if a.o.Server == "" && a.saved.ExpiresAt == nil {
		if refused != nil {
			return nil, errors.New("the endpoint rejects the token, and this token cannot be renewed")
		}
		return a.current, nil
	}
	if now := a.o.Clock.Now(); !now.Before(a.notYet) {
		if a.failed = a.renew(ctx); a.failed != nil {
			after := a.backoff.Step()
			a.notYet = now.Add(after)
			a.o.Log.Error(a.failed, "Access is not renewed", "not again before", after.Round(time.Second).String())
		}
	}
	if a.failed != nil && a.current == refused {
		return nil, a.failed
	}
	return a.current, nil
}

// isHalfway reports whether half the token's life is over, by the time since it came: our clock may
// be another than the endpoint's.
func (a *Access) isHalfway() bool {
	if a.saved.ExpiresAt == nil || a.saved.IssuedAt == nil {
		return false
	}
	age, life := a.o.Clock.Now().Sub(a.saved.ReceivedAt), a.saved.ExpiresAt.Sub(*a.saved.IssuedAt)
	return age < 0 || age > life/2
}

// firstBackoff is the wait between two requests that failed.
var firstBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 9, Cap: 5 * time.Minute}

// keep makes an answer the one that counts, also where the disk takes nothing: the plan that makes
// room there comes by it.
func (a *Access) keep(answer connect.Answer) error {
	if a.saved.SecretName != "" && (answer.Namespace != a.saved.Namespace || answer.SecretName != a.saved.SecretName) {
		return fmt.Errorf("the endpoint names plan Secret %s/%s, which is not the %s/%s that we have", answer.Namespace, answer.SecretName, a.saved.Namespace, a.saved.SecretName)
	}
	next, err := a.targetOf(answer)
	if err != nil {
		return err
	}
	before := a.current
	a.saved = Saved{Answer: answer, Received: Received{ReceivedAt: a.o.Clock.Now(), Configured: a.o.configured()}}
	a.current, a.backoff, a.notYet = next, firstBackoff, time.Time{}
	before.transport.CloseIdleConnections()
	a.write()
	return nil
}

// write writes the connection file and then deletes the bootstrap token. If the write fails, a
// later call repeats it. After a restart, the agent gets another answer with its key.
func (a *Access) write() {
	content, err := json.Marshal(a.saved)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(a.o.ConnectionFile), 0o700)
	}
	if err == nil {
		err = agent.WriteFile(a.o.ConnectionFile, content, 0o600)
	}
	if a.unwritten = err != nil; a.unwritten {
		a.o.Log.Error(err, "The connection file is not written, which is tried again")
		return
	}
	a.forgetToken()
}

// forgetToken deletes the bootstrap token, which is used up once there is an answer.
func (a *Access) forgetToken() {
	if a.o.TokenFile == "" {
		return
	}
	if err := os.Remove(a.o.TokenFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.o.Log.Error(err, "The bootstrap token, which is used up, stays on disk")
	}
}

func (a *Access) targetOf(answer connect.Answer) (*target, error) {
	server, ca, token, err := parseKubeconfig(answer.KubeConfig)
	if err != nil {
		return nil, err
	}
	return newTarget(server, ca, token, a.o.Proxies)
}
