package authority

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/endpoint/certificate"
)

// Name is the name of the authority's Secret, and of the ConfigMap with the authority that agents
// trust.
const Name = "drover-endpoint-authority"

// Options of a Source.
type Options struct {
	// Client reads and writes live, and watches.
	Client client.WithWatch
	// Namespace is the manager's.
	Namespace string
	// Given is the TLS Secret there that the user gives; empty for an authority of our own.
	Given string
	// Names are the DNS names or IP addresses by which agents call the endpoint; at least one.
	Names []string
	// Changed is called when the bundle has become another, and must not wait; it may be nil.
	Changed func()
	// Tell is called with an event for the administrator: its type, its reason (api/rke/v1) and a
	// sentence. It may be nil.
	Tell func(kind, reason, what string)
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Source holds the certificate for a TLS server and the authorities that verify it, and renews
// both.
type Source struct {
	certificate.Follower // has Start, which keeps it fresh

	opts    Options
	current atomic.Pointer[shown]
	// reported holds the sentences that were already reported.
	reported map[string]bool
}

// shown is the state that the endpoint serves until the Secret is read again.
type shown struct {
	cert tls.Certificate
	// bundle verifies the certificate; empty if the system's authorities do.
	bundle []byte
	// known are the bundles that have verified it or will, by their checksum.
	known map[string][]byte
	// key is the private key of our authority, or of the user's certificate, in PEM.
	key []byte
	// secret is the data of our own Secret, to restore it if it is deleted.
	secret map[string][]byte
}

// Load reads the Secret, and creates an authority if none ever existed.
func Load(ctx context.Context, opts Options) (*Source, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if len(opts.Names) == 0 || slices.Contains(opts.Names, "") {
		return nil, errors.New("the endpoint's certificate needs a name")
	}
	s := &Source{opts: opts, reported: map[string]bool{}}
	refresh := s.refreshOwn
	if opts.Given != "" {
		refresh = s.refreshGiven
	}
	s.Follower = certificate.Follower{Client: opts.Client, Look: refresh, Now: opts.Now,
		Secret: client.ObjectKey{Namespace: opts.Namespace, Name: cmp.Or(opts.Given, Name)}}
	_, err := refresh(ctx, true)
	return s, err
}

// GetCertificate is for tls.Config.
func (s *Source) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return &s.current.Load().cert, nil
}

// Bundle returns the certificates, in PEM, that verify the endpoint's certificate. If several sets
// do, it returns the one with the checksum, else all. It is empty if the system's authorities
// verify the certificate.
func (s *Source) Bundle(checksum string) []byte {
	now := s.current.Load()
	if found, ok := now.known[checksum]; ok {
		return found
	}
	return now.bundle
}

// Checksum is the SHA-256 of the bundle in lower-case hex, or empty without a bundle.
func (s *Source) Checksum() string {
	if bundle := s.current.Load().bundle; len(bundle) > 0 {
		return sumOf(bundle)
	}
	return ""
}

// Derive derives a secret for one purpose from the private key, the same on every replica. It
// changes with the key.
func (s *Source) Derive(purpose string) []byte {
	mac := hmac.New(sha256.New, s.current.Load().key)
	mac.Write([]byte(purpose))
	return mac.Sum(nil)
}

const (
	servingLife  = 90 * 24 * time.Hour
	servingRenew = 30 * 24 * time.Hour
)

// refreshOwn signs a certificate with our authority. Every replica serves the present content of
// the Secret.
func (s *Source) refreshOwn(ctx context.Context, _ bool) (time.Time, error) {
	data, again, err := s.store(ctx)
	if err != nil {
		return time.Time{}, err
	}
	now := s.Now()
	own, err := signed(data, now)
	if err != nil {
		return time.Time{}, err
	}
	if renew := now.Add(servingLife - servingRenew); renew.Before(again) {
		again = renew
	}
	next := &shown{cert: own.Certificate, bundle: own.bundle, known: runs(data[bundleKey], now), key: data[keyKey], secret: data}
	before, at, err := s.leave(ctx, own)
	switch {
	case err != nil:
		return time.Time{}, err
	case before != nil:
		maps.Copy(next.known, runs(before.served(), now))
		maps.Copy(next.known, runs(before.data[earlierKey], now))
		next.cert, next.bundle, next.key = before.Certificate, before.served(), before.data[keyKey]
		if at.Before(again) {
			again = at
		}
	}
	s.show(next)
	return again, nil
}

// signed returns a certificate by the authority in its Secret's data, with the bundle that verifies
// it.
func signed(data map[string][]byte, now time.Time) (*given, error) {
	authority, err := read(data, certKey, keyKey)
	if err != nil {
		return nil, err
	}
	// A certificate must not outlive its authority.
	end := now.Add(servingLife)
	if authority.Leaf.NotAfter.Before(end) {
		end = authority.Leaf.NotAfter
	}
	cert, key, err := certificate.Serving(strings.Fields(string(data[hostsKey])), authority, now, end)
	if err != nil {
		return nil, err
	}
	cert = slices.Concat(cert, data[crossKey])
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("reading back the endpoint's certificate: %w", err)
	}
	bundle := newest(data[bundleKey], maxTrusted, now)
	return &given{Certificate: pair, bundle: bundle, data: map[string][]byte{certKey: cert, keyKey: key, bundleKey: bundle}}, nil
}

// show replaces the served state.
func (s *Source) show(next *shown) {
	before := s.current.Swap(next)
	if s.opts.Changed != nil && before != nil && !bytes.Equal(before.bundle, next.bundle) {
		s.opts.Changed()
	}
}

// runs returns the bundles that a server may have received: any number of consecutive authorities.
// A bundle with more authorities than Drover keeps, such as all that a system trusts, would give
// thousands: it counts as one.
func runs(bundle []byte, now time.Time) map[string][]byte {
	out, all := map[string][]byte{}, certificate.Valid(bundle, now)
	if len(all) > maxKept {
		all = [][]byte{slices.Concat(all...)}
	}
	for from := range all {
		for to := from + 1; to <= len(all); to++ {
			run := slices.Concat(all[from:to]...)
			out[sumOf(run)] = run
		}
	}
	return out
}

func sumOf(bundle []byte) string {
	sum := sha256.Sum256(bundle)
	return hex.EncodeToString(sum[:])
}

// store reads our own Secret, updates it if a change is due, and returns its data and the time of
// the next check.
func (s *Source) store(ctx context.Context) (data map[string][]byte, again time.Time, err error) {
	data, err = certificate.Keep(ctx, s.Client, s.Secret, "the endpoint's authority", func(secret *corev1.Secret) (data map[string][]byte, err error) {
		if data = secret.Data; secret.ResourceVersion == "" {
			if data, err = s.lost(ctx); err != nil {
				return nil, err
			}
		}
		if data, again, err = turn(data, secret.Annotations[RotateAnnotation], s.Now()); err != nil {
			return nil, fmt.Errorf("reading the endpoint's authority from Secret %s, which is not replaced, because agents trust it: %w", s.Secret, err)
		}
		data[hostsKey] = remember(data[hostsKey], s.opts.Names, s.current.Load() == nil)
		return data, nil
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	return data, again, s.writeTrusted(ctx, data[bundleKey])
}

// writeTrusted writes down which authorities agents trust, so that a lost one is noticed.
func (s *Source) writeTrusted(ctx context.Context, bundle []byte) error {
	applier := apply.Applier{Client: s.Client, Reader: s.Client, Owner: "drover-endpoint"}
	trusted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Secret.Namespace, Name: Name}, Data: map[string]string{bundleKey: string(bundle)}}
	if _, err := applier.Apply(ctx, trusted); err != nil {
		return fmt.Errorf("recording the authority that agents trust: %w", err)
	}
	return nil
}

// lost returns the data for a Secret that does not exist: this replica's data, or no data, to be
// filled in, if it never existed.
func (s *Source) lost(ctx context.Context) (map[string][]byte, error) {
	if known := s.current.Load(); known != nil {
		log.FromContext(ctx).Info("Creating the Secret of the endpoint's authority again after its deletion", "secret", s.Secret)
		return known.secret, nil
	}
	err := s.Client.Get(ctx, s.Secret, &corev1.ConfigMap{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("checking whether the endpoint had an authority: %w", err)
	}
	return nil, fmt.Errorf("the endpoint's authority does not exist, and agents trust no other: restore Secret %s from a backup, "+
		"or delete the ConfigMap of this name, which makes the manager create a new authority, and run the install script on every server again", s.Secret)
}
