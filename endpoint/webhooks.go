package endpoint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// WebhookOptions of a Webhooks.
type WebhookOptions struct {
	Host string
	Port int
	// GetCertificate gives the certificate shown to API servers.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// ClientCA signs the certificates of API servers; without one of them no request is read. Nil: anybody may call.
	ClientCA *x509.CertPool
	// Strip takes from a request's path what only API servers know; of a request without it nothing is read. Nil: the path is as it is.
	Strip func(path string) (rest string, ok bool)
	// Limits; WebhookLimits when zero.
	Limits Limits
}

// Webhooks is a webhook server that anybody may reach. Only its port differs from controller-runtime's, whose register it uses.
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
	server := newHTTPServer(s.known(newBodies(name, mux, s.opts.Limits.ReadTimeout)), s.opts.Limits)
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

// known answers who knows the path.
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
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: patience}, Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // it is ourselves, and nothing is sent
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
