// Package servingcert creates the certificate that the webhook server presents to the API server,
// so that cert-manager is not needed. Certificate, key and the authority that signs them are one
// Secret in the manager's namespace, shared by the replicas: a replica that finds it missing or
// about to expire renews it, and the others see it by watch.
//
// It reads and writes this Secret. CABundle goes into the webhook configurations (package
// admission).
package servingcert

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/endpoint/certificate"
)

// Options of a Source.
type Options struct {
	// Client reads and writes the Secret live, and watches it.
	Client client.WithWatch
	// Secret is the Secret's namespace and name.
	Secret client.ObjectKey
	// Names are the DNS names or IP addresses the API server calls us by; at least one.
	Names []string
	// Changed is called by Start with a new bundle or path, and again after a while if it fails; it
	// may be nil.
	Changed func(ctx context.Context, bundle []byte, path string) error
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Source holds the certificate for a TLS server and keeps it fresh.
type Source struct {
	certificate.Follower // has Start, which keeps it fresh

	opts    Options
	current atomic.Pointer[pair]
	// published is the last successful input of Changed.
	published atomic.Pointer[published]
}

// published is the bundle and the path in the webhook configurations.
type published struct {
	bundle []byte
	path   string
}

// Load reads the Secret, or makes it.
func Load(ctx context.Context, opts Options) (*Source, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if len(opts.Names) == 0 || slices.Contains(opts.Names, "") {
		return nil, errors.New("a serving certificate needs a name")
	}
	s := &Source{opts: opts}
	s.Follower = certificate.Follower{Client: opts.Client, Secret: opts.Secret, Look: s.look, Now: opts.Now}
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	s.published.Store(&published{s.CABundle(), s.Path()})
	return s, nil
}

// GetCertificate is for tls.Config.
func (s *Source) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return &s.current.Load().cert, nil
}

// CABundle returns the authorities that the API server must trust, in PEM.
func (s *Source) CABundle() []byte { return s.current.Load().bundle }

// look comes when the Secret has changed or is due, and when the path changes.
func (s *Source) look(ctx context.Context, changed bool) (time.Time, error) {
	if changed || !s.opts.Now().Before(s.current.Load().renewAt) {
		if err := s.refresh(ctx); err != nil {
			return time.Time{}, err
		}
	}
	if err := s.publish(ctx); err != nil {
		return time.Time{}, err
	}
	next := s.opts.Now().Truncate(period).Add(period)
	if renew := s.current.Load().renewAt; renew.Before(next) {
		return renew, nil
	}
	return next, nil
}

// publish publishes the bundle and the path if they changed since the last success.
func (s *Source) publish(ctx context.Context) error {
	bundle, path := s.CABundle(), s.Path()
	if before := s.published.Load(); bytes.Equal(bundle, before.bundle) && path == before.path {
		return nil
	}
	if s.opts.Changed != nil {
		if err := s.opts.Changed(ctx, bundle, path); err != nil {
			return fmt.Errorf("publishing the new authority or path: %w", err)
		}
	}
	s.published.Store(&published{bundle, path})
	return nil
}

// refresh reads the Secret and renews it when it is due.
func (s *Source) refresh(ctx context.Context) error {
	data, err := certificate.Keep(ctx, s.opts.Client, s.opts.Secret, "the serving certificate", func(secret *corev1.Secret) (map[string][]byte, error) {
		if found, err := parse(secret.Data, s.opts.Names); err == nil && s.opts.Now().Before(found.renewAt) {
			return secret.Data, nil
		}
		return renew(secret.Data, s.opts.Names, s.opts.Now())
	})
	if err != nil {
		return err
	}
	found, err := parse(data, s.opts.Names)
	if err == nil {
		s.current.Store(found)
	}
	return err
}

// API servers present no certificate when they call a webhook, unless their administrator
// configured one. So the paths of our webhooks begin with a secret word that stands only in the
// webhook configurations, which only administrators of the cluster can read. An API server quotes
// the whole address in its errors if the webhook does not answer; so the word changes every hour.

const (
	period = time.Hour
	// overlap is how long the previous word stays valid for clients that have not seen the new one,
	// and how far the clocks of replicas may differ.
	overlap = time.Minute
)

// Path returns the present prefix of our webhooks' paths.
func (s *Source) Path() string { return s.path(s.opts.Now()) }

func (s *Source) path(at time.Time) string {
	sum := hmac.New(sha256.New, s.current.Load().secret)
	_, _ = fmt.Fprintf(sum, "path of the webhooks %d", at.Unix()/int64(period.Seconds()))
	return "/" + hex.EncodeToString(sum.Sum(nil)[:sha256.Size/2])
}

// Strip removes the secret prefix from the path of a request; ok is false without it. The prefix
// that was published last stays valid until the next one is published.
func (s *Source) Strip(path string) (rest string, ok bool) {
	now, good := s.opts.Now(), 0
	word, rest, found := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	known := []string{s.path(now), s.path(now.Add(-overlap)), s.path(now.Add(overlap))}
	if published := s.published.Load(); published != nil {
		known = append(known, published.path)
	}
	for _, one := range known {
		good |= subtle.ConstantTimeCompare([]byte("/"+word), []byte(one))
	}
	return "/" + rest, found && good == 1
}

// Keys of the Secret beside tls.crt and tls.key.
const (
	caCertKey = "ca.crt"
	caKeyKey  = "ca.key"
	certKey   = "tls.crt"
	keyKey    = "tls.key"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	// authorityRenew is the remaining life of an authority when a new one is created; the old one
	// stays in the bundle.
	authorityRenew = 365 * 24 * time.Hour
	certLife       = 90 * 24 * time.Hour
	certRenew      = 30 * 24 * time.Hour
)

// pair is the content of the Secret, read.
type pair struct {
	cert   tls.Certificate
	bundle []byte
	// secret is the key from which the paths are derived.
	secret []byte
	// renewAt is when a new one is due.
	renewAt time.Time
}

// parse reads the Secret's data; it fails on anything that a server could not use for names.
func parse(data map[string][]byte, names []string) (*pair, error) {
	cert, err := tls.X509KeyPair(data[certKey], data[keyKey])
	if err != nil {
		return nil, fmt.Errorf("reading the serving certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data[caCertKey]) {
		return nil, errors.New("the authority's certificate is missing")
	}
	if len(data[caKeyKey]) == 0 {
		return nil, errors.New("the authority's key, which the webhooks' paths are derived from, is missing")
	}
	for _, name := range names {
		// The time is judged by renewAt; here an expired certificate is still one of ours.
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: cert.Leaf.NotBefore.Add(certificate.ClockSkew)}); err != nil {
			return nil, fmt.Errorf("checking the serving certificate for %s: %w", name, err)
		}
	}
	return &pair{cert: cert, bundle: data[caCertKey], secret: data[caKeyKey], renewAt: cert.Leaf.NotAfter.Add(-certRenew)}, nil
}

// renew creates new data for the Secret. It keeps an authority that is valid for long enough, so
// that its bundle stays valid.
func renew(old map[string][]byte, names []string, now time.Time) (map[string][]byte, error) {
	bundle, caKey := old[caCertKey], old[caKeyKey]
	authority, err := tls.X509KeyPair(bundle, caKey)
	if _, ours := authority.PrivateKey.(*ecdsa.PrivateKey); err != nil || !ours || !authority.Leaf.IsCA || now.After(authority.Leaf.NotAfter.Add(-authorityRenew)) {
		var made []byte
		if made, caKey, err = certificate.Authority("drover webhooks", now, now.Add(authorityLife)); err != nil {
			return nil, err
		}
		if authority, err = tls.X509KeyPair(made, caKey); err != nil {
			return nil, fmt.Errorf("reading back the authority: %w", err)
		}
		// Other replicas may still serve a certificate that an earlier authority signed.
		bundle = slices.Concat(append([][]byte{made}, certificate.Valid(bundle, now)...)...)
	}
	cert, key, err := certificate.Serving(names, &authority, now, now.Add(certLife))
	if err != nil {
		return nil, err
	}
	return map[string][]byte{certKey: cert, keyKey: key, caCertKey: bundle, caKeyKey: caKey}, nil
}
