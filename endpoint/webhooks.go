package endpoint

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/drover-project/drover/limit"
)

// WebhookOptions of a Webhooks.
type WebhookOptions struct {
	Host string
	Port int
	// GetCertificate gives the certificate shown to API servers.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// ClientCA signs the certificates of API servers. Requests without such a certificate are not
	// read. If nil, any client may call.
	ClientCA *x509.CertPool
	// Strip removes the secret prefix from a request's path, which only API servers know. Requests
	// without it are not read. If nil, the path stays unchanged.
	Strip func(path string) (rest string, ok bool)
	// Limits; WebhookLimits when zero.
	Limits Limits
}

// Webhooks is a webhook server that any client may reach. It differs from controller-runtime's
// server, whose registration it uses, only in its port.
type Webhooks struct {
	webhook.Server
	opts    WebhookOptions
	started atomic.Bool
}

var _ webhook.Server = (*Webhooks)(nil)

// NewWebhooks makes a server that listens once it is started.
func NewWebhooks(opts WebhookOptions) *Webhooks {
	if opts.Limits == (Limits{}) {
		opts.Limits = WebhookLimits
	}
	return &Webhooks{Server: webhook.NewServer(webhook.Options{WebhookMux: http.NewServeMux()}), opts: opts}
}

// shutdownTimeout is how long requests may take that came before the end.
const shutdownTimeout = 20 * time.Second

// Start serves until the context ends.
func (s *Webhooks) Start(ctx context.Context) error {
	mux := s.WebhookMux()
	if mux == nil {
		mux = http.NewServeMux()
	}
	const name = "webhooks"
	makeLane := func(reading, decoded int64) lane {
		return lane{reading: limit.NewPreemptive[netip.Addr](limit.PreemptiveOptions{Total: reading, PerKey: reading, Rejected: Rejections(name, "bodies")}),
			memory: limit.NewBytes(reading), decoded: limit.NewBytes(decoded)}
	}
	bounded := &bodies{next: mux, readTimeout: s.opts.Limits.ReadTimeout, small: makeLane(16<<20, 4<<20), large: makeLane(24<<20, 8<<20)}
	server := newHTTPServer(s.known(bounded), s.opts.Limits)
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.opts.GetCertificate}
	if s.opts.ClientCA != nil {
		server.TLSConfig.ClientCAs, server.TLSConfig.ClientAuth = s.opts.ClientCA, tls.RequireAndVerifyClientCert
	}
	bound, err := listen(ctx, name, s.address(), s.opts.Limits)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if err := server.Shutdown(ending); err != nil {
			log.FromContext(ctx).Error(err, "Shutting down the webhook server")
		}
	}()
	s.started.Store(true)
	if err := server.ServeTLS(bound, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving webhooks: %w", err)
	}
	<-ended
	return nil
}

// known serves only clients that know the path.
func (s *Webhooks) known(next http.Handler) http.Handler {
	if s.opts.Strip == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, ok := s.opts.Strip(r.URL.Path)
		if !ok {
			w.Header().Set("Connection", "close")
			http.NotFound(w, r)
			return
		}
		r = r.WithContext(r.Context())
		r.URL = &url.URL{Path: rest, RawQuery: r.URL.RawQuery}
		next.ServeHTTP(w, r)
	})
}

func (s *Webhooks) address() string { return net.JoinHostPort(s.opts.Host, strconv.Itoa(s.opts.Port)) }

// StartedChecker connects to the server.
func (s *Webhooks) StartedChecker() healthz.Checker {
	const patience = 5 * time.Second
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: patience}, Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // our own server, and no data is sent
	return func(*http.Request) error {
		if !s.started.Load() {
			return errors.New("the webhook server has not been started yet")
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		conn, err := dialer.DialContext(ctx, "tcp", s.address())
		if err != nil {
			return fmt.Errorf("connecting to the webhook server: %w", err)
		}
		return conn.Close()
	}
}

const (
	// maxBody is controller-runtime's limit for a review: an old and a new object of at most 3 MiB
	// each, and the rest.
	maxBody = 7 << 20
	// smallBody separates usual bodies from rare large ones: large bodies wait for each other,
	// small ones never wait for a large one.
	smallBody = 128 << 10
	// leastBody is the memory cost of a request without a body.
	leastBody = 16 << 10
)

// lane bounds the bodies of one size class: how many bytes may be read at the same time, which
// bodies hold memory (a preempted body releases its memory a moment later), and how many may be
// decoded at the same time. A decoded body of empty JSON objects takes some twenty times its size.
type lane struct {
	reading         *limit.Preemptive[netip.Addr]
	memory, decoded *limit.Bytes
}

// bodies reads each request's body, within bounds, before its handler runs.
type bodies struct {
	next         http.Handler
	small, large lane
	readTimeout  time.Duration
}

const busy = "too many concurrent requests of this size"

// ServeHTTP implements http.Handler.
func (b *bodies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	size := r.ContentLength
	switch {
	case size < 0:
		http.Error(w, "the request must have a Content-Length", http.StatusLengthRequired)
		return
	case size > maxBody:
		http.Error(w, "the request is too large", http.StatusRequestEntityTooLarge)
		return
	}
	part := b.small
	if size > smallBody {
		part = b.large
	}
	weight := max(size, leastBody)
	ctx, cancel := context.WithTimeout(r.Context(), WebhookLimits.WriteTimeout)
	defer cancel()
	controller := http.NewResponseController(w)
	permit := part.reading.TryAcquire(AddressOf(r.RemoteAddr), weight, func() {
		cancel()
		_ = controller.SetReadDeadline(time.Unix(1, 0))
	})
	if permit == nil {
		http.Error(w, busy, http.StatusTooManyRequests)
		return
	}
	defer permit.Release()
	releaseMemory, err := part.memory.Acquire(ctx, weight)
	if err != nil {
		http.Error(w, busy, http.StatusServiceUnavailable)
		return
	}
	defer releaseMemory()
	body, err := b.read(controller, r, permit)
	if err != nil {
		http.Error(w, "reading the request: "+err.Error(), http.StatusRequestTimeout)
		return
	}
	releaseDecoded, err := part.decoded.Acquire(ctx, weight)
	if err != nil {
		http.Error(w, busy, http.StatusServiceUnavailable)
		return
	}
	defer releaseDecoded()
	Prefer(ctx)
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	b.next.ServeHTTP(w, r)
}

// read allocates the memory for the whole body, which the permit covers.
func (b *bodies) read(controller *http.ResponseController, r *http.Request, permit *limit.Permit[netip.Addr]) ([]byte, error) {
	if err := permit.IfHeld(func() error { return controller.SetReadDeadline(time.Now().Add(b.readTimeout)) }); err != nil {
		return nil, err
	}
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return nil, err
	}
	if !permit.Pin() {
		return nil, limit.ErrPreempted
	}
	return body, nil
}
