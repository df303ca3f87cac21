// Package proxy sends the agent's requests through the proxies of its environment, and without a
// proxy that does not answer.
//
// It reads the proxy variables for each request, because a plan may change them, and it remembers
// which proxy did not answer. It never weakens TLS: the server is verified in the same way with and
// without a proxy.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/http/httpproxy"
	"k8s.io/utils/clock"
)

const (
	// connectTimeout bounds the time to reach a server through a proxy. A request to the endpoint
	// has a minute, so enough time remains for the attempt without the proxy.
	connectTimeout = 20 * time.Second
	// pause is the time for which requests do not try a proxy first that did not answer.
	pause = 5 * time.Minute
)

var errSilent = errors.New("no connection through it in time")

// Options of Proxies.
type Options struct {
	// Get returns the first of these variables of the environment that is not empty; nil is an empty
	// environment.
	Get   func(names ...string) string
	Clock clock.PassiveClock
	Log   logr.Logger
	// ConnectTimeout is connectTimeout when 0.
	ConnectTimeout time.Duration
}

// Proxies are the proxies of an environment.
type Proxies struct {
	o Options

	mu sync.Mutex
	// failed is the proxy that did not answer last, without its credentials; why it failed, and when.
	failed, why string
	since       time.Time
}

// New returns the proxies of an environment.
func New(o Options) *Proxies {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Get == nil {
		o.Get = func(...string) string { return "" }
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = connectTimeout
	}
	return &Proxies{o: o}
}

// Failed returns the proxy that does not answer, and the reason; empty if all answer. It has no
// credentials.
func (p *Proxies) Failed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == "" || !p.isUsed() {
		return ""
	}
	return p.failed + ": " + p.why
}

// isUsed reports whether the environment still has the proxy that failed.
func (p *Proxies) isUsed() bool {
	config := p.config()
	config.NoProxy = ""
	for _, scheme := range []string{"https", "http"} {
		found, _ := config.ProxyFunc()(&url.URL{Scheme: scheme, Host: "host.invalid"})
		if found != nil && nameOf(found) == p.failed {
			return true
		}
	}
	return false
}

func (p *Proxies) config() *httpproxy.Config {
	return &httpproxy.Config{HTTPProxy: p.o.Get("HTTP_PROXY", "http_proxy"), HTTPSProxy: p.o.Get("HTTPS_PROXY", "https_proxy"), NoProxy: p.o.Get("NO_PROXY", "no_proxy")}
}

// nameOf is a proxy without its credentials.
func nameOf(proxy *url.URL) string {
	return (&url.URL{Scheme: proxy.Scheme, Host: proxy.Host}).String()
}

// Transport makes a transport use the proxies, and returns what sends requests with it. The caller
// keeps the transport, for example to close its connections. Without Proxies it uses none.
func (p *Proxies) Transport(next *http.Transport) http.RoundTripper {
	next.Proxy = nil
	if p == nil {
		return next
	}
	next.Proxy = func(request *http.Request) (*url.URL, error) {
		proxy, _ := request.Context().Value(key{}).(*url.URL)
		return proxy, nil
	}
	return &transport{p: p, next: next}
}

// key is the context's key for the proxy of a request.
type key struct{}

type transport struct {
	p    *Proxies
	next *http.Transport
}

// RoundTrip sends a request through its proxy, and without it if that fails. While a proxy pauses, it
// is the second choice. The agent's requests may be repeated: an update names the version that it
// changes, and a registration is repeated with the same key.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	// An invalid variable counts as empty.
	proxy, _ := t.p.config().ProxyFunc()(request.URL)
	if proxy == nil {
		return t.next.RoundTrip(request)
	}
	name := nameOf(proxy)
	order := []*url.URL{proxy, nil}
	if t.p.pauses(name) {
		order = []*url.URL{nil, proxy}
	}
	var broken, all error // of the proxy, and of both attempts
	for n, by := range order {
		if n > 0 {
			var possible bool
			if request, possible = again(request); !possible {
				break
			}
		}
		answer, err := t.send(by, request)
		switch {
		case err == nil && by != nil:
			t.p.answers(name)
			return answer, nil
		case err == nil:
			if broken != nil {
				t.p.fails(name, broken)
			}
			return answer, nil
		case by != nil:
			broken = err
			all = both(all, fmt.Errorf("through the proxy %s: %w", name, err))
		default:
			all = both(all, fmt.Errorf("without a proxy: %w", err))
		}
	}
	return nil, all
}

// both joins two errors in one line, as conditions show them.
func both(first, second error) error {
	if first == nil {
		return second
	}
	return fmt.Errorf("%w; %w", first, second)
}

// again is a request for another attempt, if there may be one.
func again(request *http.Request) (*http.Request, bool) {
	if request.Context().Err() != nil {
		return request, false
	}
	if request.Body == nil || request.Body == http.NoBody {
		return request, true
	}
	if request.GetBody == nil {
		return request, false
	}
	body, err := request.GetBody()
	next := request.Clone(request.Context())
	next.Body = body
	return next, err == nil
}

// send sends a request, through a proxy if there is one. The time limit of a proxy ends with the
// connection, because the answer may take long.
func (t *transport) send(proxy *url.URL, request *http.Request) (*http.Response, error) {
	if proxy == nil {
		return t.next.RoundTrip(request)
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(request.Context(), key{}, proxy))
	timer := time.AfterFunc(t.p.o.ConnectTimeout, func() { cancel(errSilent) })
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { timer.Stop() }}
	answer, err := t.next.RoundTrip(request.WithContext(httptrace.WithClientTrace(ctx, trace)))
	timer.Stop()
	if err != nil {
		if errors.Is(context.Cause(ctx), errSilent) {
			err = errSilent
		}
		cancel(nil)
		return nil, err
	}
	answer.Body = &body{answer.Body, cancel}
	return answer, nil
}

// body ends the context of a request with its answer.
type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close closes the answer and ends the context of its request.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// pauses reports whether a proxy did not answer a short time ago.
func (p *Proxies) pauses(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed == name && p.o.Clock.Since(p.since) < pause
}

func (p *Proxies) answers(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == name {
		p.o.Log.Info("The proxy answers again", "proxy", name)
		p.failed, p.why = "", ""
	}
}

// fails keeps the first reason of a proxy, so that a report does not change with each attempt.
func (p *Proxies) fails(name string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = p.o.Clock.Now()
	if p.failed == name {
		return
	}
	p.failed, p.why = name, reasonOf(err)
	p.o.Log.Error(err, "The proxy does not answer; requests are sent without it", "proxy", name)
}

// reasonOf is an error without the addresses of connections, which change with each attempt.
func reasonOf(err error) string {
	for {
		inner, is := errors.AsType[*net.OpError](err)
		if !is {
			return err.Error()
		}
		err = inner.Err
	}
}
