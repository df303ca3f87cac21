package agents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/drover-project/drover/api/connect"
	"github.com/drover-project/drover/api/plan"
	"github.com/drover-project/drover/endpoint"
)

const (
	// maxUpdate is a Secret of 1 MiB as JSON, whose data is base64.
	maxUpdate = 2 << 20
	// maxRefusal is far larger than an API server's error.
	maxRefusal = 64 << 10
	// watchLife is longer than any watch: an API server ends a watch without a timeout after 60
	// minutes at most.
	watchLife = 65 * time.Minute
	// requestTime bounds every request except a watch.
	requestTime = 30 * time.Second

	bearer = "Bearer "
)

// Only a plan Secret passes, whatever other rights the token has in the namespace or the cluster.
var (
	planSecret = `([a-z0-9.-]+` + regexp.QuoteMeta(plan.SecretName("")) + `)`
	oneSecret  = regexp.MustCompile(`^/api/v1/namespaces/([a-z0-9-]+)/secrets/` + planSecret + `$`)
	allSecrets = regexp.MustCompile(`^/api/v1/namespaces/([a-z0-9-]+)/secrets$`)
	oneByName  = regexp.MustCompile(`^metadata\.name=` + planSecret + `$`)
)

// passed are the headers that reach the API server. All others are dropped, including
// Impersonate-User and X-Remote-User.
var passed = []string{"Authorization", "Accept", "Content-Type", "User-Agent"}

// newPassThrough returns the proxy from agents to the API server. It has no credential of its own:
// every request has the rights of the agent's token.
func newPassThrough(api *rest.Config, g *guard) (http.Handler, error) {
	anonymous := rest.AnonymousClientConfig(api)
	transport, err := rest.TransportFor(anonymous)
	if err != nil {
		return nil, fmt.Errorf("preparing the proxy to the API server: %w", err)
	}
	server, _, err := rest.DefaultServerUrlFor(anonymous)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's address: %w", err)
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(server)
			r.Out.Header = http.Header{}
			for _, name := range passed {
				if value := r.In.Header.Get(name); value != "" {
					r.Out.Header.Set(name, value)
				}
			}
			token, _ := connect.CutTicket(r.In.Header.Get("Authorization"))
			r.Out.Header.Set("Authorization", token)
		},
		ModifyResponse: g.learn,
		ErrorHandler:   unanswered,
		ErrorLog:       log.New(io.Discard, "", 0), // it has a line for each watch that a client ends
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !isAgents(r.Method, r.URL):
			http.NotFound(w, r)
			return
		case !strings.HasPrefix(r.Header.Get("Authorization"), bearer) || r.Header.Get("Upgrade") != "":
			http.Error(w, "an agent's token is required", http.StatusUnauthorized)
			return
		case !g.throttle.allows(visitorOf(r.Context())):
			endpoint.Rejections(port, "too many rejected requests")()
			w.Header().Set("Retry-After", retryThrottled)
			http.Error(w, "too many requests from this address were rejected: wait, or renew your token with your key", http.StatusTooManyRequests)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxUpdate)
		if r.Method == http.MethodPut {
			sent := &update{ReadCloser: r.Body}
			r.Body, w = sent, &refusing{ResponseWriter: w, update: sent}
		}
		life := requestTime
		if r.URL.Query().Has("watch") {
			// The end of the time for reading would end the watch, too.
			life = watchLife
			control, end := http.NewResponseController(w), time.Now().Add(life)
			if err := errors.Join(control.SetReadDeadline(end), control.SetWriteDeadline(end)); err != nil {
				http.Error(w, "this connection does not support a watch", http.StatusInternalServerError)
				return
			}
		}
		ctx, cancel := context.WithTimeout(r.Context(), life)
		defer cancel()
		proxy.ServeHTTP(w, r.WithContext(ctx))
	}), nil
}

// unanswered explains why the API server gave no response. A retry of the same request helps only
// if the API server is the cause.
func unanswered(w http.ResponseWriter, r *http.Request, err error) {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		http.Error(w, "the request is too large", http.StatusRequestEntityTooLarge)
	case errors.Is(context.Cause(r.Context()), errBusy):
		busy(w)
	default:
		w.Header().Set("Retry-After", retryDown)
		http.Error(w, "the management cluster does not respond: try again", http.StatusBadGateway)
	}
}

// learn takes over the API server's decision about a token. Before the API server is asked, the
// manager cannot know whether a token is valid.
func (g *guard) learn(answer *http.Response) error {
	ctx := answer.Request.Context()
	if answer.StatusCode >= http.StatusBadRequest { // the reason must be read before the request is aborted; see refusing
		text, err := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
		if err != nil {
			return fmt.Errorf("reading the API server's error: %w", err)
		}
		answer.Body, answer.ContentLength = struct {
			io.Reader
			io.Closer
		}{bytes.NewReader(text), answer.Body}, int64(len(text))
		answer.Header.Set("Content-Length", strconv.Itoa(len(text)))
	}
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		g.throttle.charge(visitorOf(ctx))
	default:
		if answer.StatusCode < http.StatusBadRequest {
			endpoint.Prefer(ctx)
		}
	}
	return nil
}

// secretOf is the one Secret that a request is about.
func secretOf(u *url.URL) (namespace, name string, ok bool) {
	if one := oneSecret.FindStringSubmatch(u.Path); one != nil {
		return one[1], one[2], true
	}
	all, one := allSecrets.FindStringSubmatch(u.Path), oneByName.FindStringSubmatch(u.Query().Get("fieldSelector"))
	if all == nil || one == nil {
		return "", "", false
	}
	return all[1], one[1], true
}

// update is the body of a request, read by the proxy's transport while its answer may be under way.
type update struct {
	io.ReadCloser
	ended atomic.Bool
}

func (u *update) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err != nil {
		u.ended.Store(true)
	}
	return n, err
}

// refusing handles the response to an update. The API server rejects a token before it has read the
// body. If the client then stops sending, the proxy, which waits for the rest, would hold the
// request until the server's own limit.
type refusing struct {
	http.ResponseWriter
	update *update
}

// Unwrap is for http.ResponseController.
func (r *refusing) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader ends the reading of a body that its answer did not wait for.
func (r *refusing) WriteHeader(code int) {
	if code >= http.StatusBadRequest && !r.update.ended.Load() {
		_ = http.NewResponseController(r.ResponseWriter).SetReadDeadline(time.Now())
	}
	r.ResponseWriter.WriteHeader(code)
}

// isAgents reports whether an agent makes this request: get and update of one plan Secret, list and
// watch of one by name.
func isAgents(method string, u *url.URL) bool {
	if u.EscapedPath() != u.Path {
		return false
	}
	switch {
	case oneSecret.MatchString(u.Path):
		return method == http.MethodPut || method == http.MethodGet && !u.Query().Has("watch")
	case allSecrets.MatchString(u.Path):
		return method == http.MethodGet && len(u.Query()["fieldSelector"]) == 1 && oneByName.MatchString(u.Query().Get("fieldSelector"))
	}
	return false
}
