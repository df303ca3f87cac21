package authority

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/endpoint/certificate"
)

// ShownName is the name of the Secret that records the certificates from the user that the endpoint
// has served. It outlives the replaced certificate for as long as agents must learn of the change.
const ShownName = "drover-endpoint-shown"

// Keys of this Secret beside the keys of a TLS Secret.
const (
	// nextTrustKey holds the authorities that verify the announced certificate, which is used at
	// useNextKey.
	nextTrustKey = "next-ca.crt"
	// earlierKey is the previous content of /cacerts: booting servers may have its checksum.
	earlierKey = "earlier-ca.crt"
)

// given is a certificate of the user's, with its Secret's data.
type given struct {
	tls.Certificate

	data map[string][]byte
	// bundle verifies it; empty if the system's authorities do.
	bundle []byte
}

// check reads a certificate that the endpoint may serve. It cannot check whether the system's
// authorities on servers verify it.
func check(data map[string][]byte, names []string, now time.Time) (*given, error) {
	pair, err := tls.X509KeyPair(data[certKey], data[keyKey])
	if err != nil {
		return nil, fmt.Errorf("reading keys %s and %s: %w", certKey, keyKey, err)
	}
	g := &given{Certificate: pair, data: data, bundle: slices.Concat(certificate.Valid(data[bundleKey], now)...)}
	for _, name := range names {
		if err := pair.Leaf.VerifyHostname(name); err != nil {
			return nil, fmt.Errorf("the certificate is not for the server URL: %w", err)
		}
	}
	if now.After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("the certificate has expired at %s", pair.Leaf.NotAfter.Format(time.RFC3339))
	}
	if len(bytes.TrimSpace(data[bundleKey])) == 0 {
		return g, nil
	}
	if len(g.bundle) == 0 {
		return nil, errors.New(bundleKey + " contains no valid certificate, or all have expired")
	}
	if err := g.verify(g.bundle, now); err != nil {
		return nil, fmt.Errorf("%s does not verify %s, so agents would reject it: %w", bundleKey, certKey, err)
	}
	return g, nil
}

// verify verifies the certificate like an agent that trusts a bundle.
func (g *given) verify(bundle []byte, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	return g.verifyBy(roots, now)
}

func (g *given) verifyBy(roots *x509.CertPool, now time.Time) error {
	between := x509.NewCertPool()
	for _, der := range g.Certificate.Certificate[1:] {
		if cert, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(cert)
		}
	}
	_, err := g.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now})
	return err
}

// trust returns the certificates by which an agent can verify it in addition to another one. If the
// system's authorities verify it, these are the certificate itself and its chain.
func (g *given) trust() []byte {
	if len(g.bundle) > 0 {
		return g.bundle
	}
	var out []byte
	for _, der := range g.Certificate.Certificate {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return out
}

// served returns the authorities that agents must trust.
func (g *given) served() []byte {
	if next := g.data[nextTrustKey]; len(next) > 0 {
		return slices.Concat(g.trust(), next)
	}
	return g.bundle
}

// after returns the certificate to serve instead of before, which is nil at first, and the time of
// the next check. If agents cannot verify the new certificate by their present trust, it is
// announced for a day first, like a successor of our own authority. A previous certificate that can
// no longer be served counts as nil.
func (g *given) after(before *given, now time.Time) (*given, time.Time) {
	again, out := now.Add(servingRenew), &given{Certificate: g.Certificate, bundle: g.bundle, data: map[string][]byte{
		certKey: g.data[certKey], keyKey: g.data[keyKey], bundleKey: g.data[bundleKey], earlierKey: nil}}
	if before == nil {
		return out, again
	}
	useAt, err := time.Parse(time.RFC3339, string(before.data[useNextKey]))
	isAnnounced := err == nil && g.verify(before.data[nextTrustKey], now) == nil
	bySystem := len(before.served()) == 0 && len(g.bundle) == 0
	if isTrusted := bySystem || g.verify(before.trust(), now) == nil; !isTrusted && (!isAnnounced || now.Before(useAt)) {
		out.Certificate, out.bundle, out.data = before.Certificate, before.bundle, maps.Clone(before.data)
		if !isAnnounced {
			useAt = now.Add(announced)
			out.data[nextTrustKey], out.data[useNextKey] = g.trust(), []byte(useAt.UTC().Format(time.RFC3339))
		}
		if again = useAt; before.Leaf.NotAfter.Before(useAt) {
			again = before.Leaf.NotAfter
		}
	}
	out.data[earlierKey] = before.data[earlierKey]
	if !bytes.Equal(out.served(), before.served()) {
		out.data[earlierKey] = before.served()
	}
	return out, again
}

// wanted is the user's certificate.
func (s *Source) wanted(ctx context.Context, now time.Time) (*given, error) {
	secret := &corev1.Secret{}
	if err := s.Client.Get(ctx, s.Secret, secret); err != nil {
		return nil, fmt.Errorf("reading the endpoint's certificate from Secret %s, which --agents-cert-secret names: %w", s.Secret, err)
	}
	g, err := check(secret.Data, s.opts.Names, now)
	if err != nil {
		return nil, fmt.Errorf("reading the endpoint's certificate from Secret %s: %w", s.Secret, err)
	}
	return g, nil
}

// refreshGiven reads the user's certificate. While it is invalid, the endpoint serves the previous
// one, also after a start: an error would stop the whole manager.
func (s *Source) refreshGiven(ctx context.Context, _ bool) (time.Time, error) {
	now := s.Now()
	wanted, wrong := s.wanted(ctx, now)
	if wrong != nil && s.current.Load() != nil {
		return time.Time{}, wrong
	}
	var out *given
	var again time.Time
	key := client.ObjectKey{Namespace: s.Secret.Namespace, Name: ShownName}
	_, err := certificate.Keep(ctx, s.Client, key, "which certificate the endpoint serves", func(kept *corev1.Secret) (map[string][]byte, error) {
		before, _ := check(kept.Data, s.opts.Names, now)
		switch {
		case wrong == nil:
			if before == nil {
				var err error
				if before, err = s.ownShown(ctx, now); err != nil {
					return nil, err
				}
			}
			out, again = wanted.after(before, now)
			return out.data, nil
		case before == nil:
			return nil, wrong
		}
		log.FromContext(ctx).Error(wrong, "Serving the endpoint's previous certificate, because the new one cannot be used", "secret", s.Secret)
		out, again = before, now.Add(certificate.RetryDelay)
		return kept.Data, nil
	})
	if err != nil {
		return time.Time{}, err
	}
	if wrong == nil {
		if err := s.reportGiven(ctx, wanted, out); err != nil {
			return time.Time{}, err
		}
	}
	bundle, known := out.served(), runs(out.data[earlierKey], now)
	maps.Copy(known, runs(bundle, now))
	s.show(&shown{cert: out.Certificate, bundle: bundle, known: known, key: out.data[keyKey]})
	return again, nil
}

// reportGiven reports problems of the given certificate to the administrator, and records which
// authority agents trust once the endpoint serves the certificate: no longer ours.
func (s *Source) reportGiven(ctx context.Context, wanted, out *given) error {
	if len(wanted.bundle) == 0 && !wanted.verifiedHere() {
		s.report(ctx, corev1.EventTypeWarning, rkev1.CertificateUnverifiedReason, fmt.Sprintf("Secret %s has no ca.crt, and its certificate is signed by an authority that the manager's image does not trust (%s): "+
			"servers that do not trust this authority cannot connect to the endpoint; add the authority to ca.crt", s.Secret.Name, wanted.Leaf.Issuer))
	}
	if at := out.data[useNextKey]; len(at) > 0 {
		s.announce(ctx, fmt.Sprintf("the certificate of Secret %s, signed by %s,", s.Secret.Name, wanted.Leaf.Issuer), string(at))
		return nil
	}
	trusted := &corev1.ConfigMap{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Secret.Namespace, Name: Name}, trusted)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the authority that agents trust: %w", err)
	}
	return s.writeTrusted(ctx, out.served())
}

// verifiedHere reports whether the authorities of this system verify it, or the system has none.
func (g *given) verifiedHere() bool {
	roots, err := x509.SystemCertPool()
	return err != nil || roots.Equal(x509.NewCertPool()) || g.verifyBy(roots, time.Now()) == nil
}

func (s *Source) announce(ctx context.Context, what, at string) {
	s.report(ctx, corev1.EventTypeNormal, rkev1.CertificateAnnouncedReason, "the endpoint serves the previous certificate until "+at+", and "+what+
		" afterwards: until then agents receive the authority that verifies it")
}

// report reports a sentence once, however often the Secret is read.
func (s *Source) report(ctx context.Context, kind, reason, what string) {
	if s.reported[what] {
		return
	}
	s.reported[what] = true
	log.FromContext(ctx).Info(what, "reason", reason)
	if s.opts.Tell != nil {
		s.opts.Tell(kind, reason, what)
	}
}

// ownShown returns a certificate by our authority if agents trust that authority because the
// endpoint never served the user's certificate.
func (s *Source) ownShown(ctx context.Context, now time.Time) (*given, error) {
	key, trusted, secret := client.ObjectKey{Namespace: s.Secret.Namespace, Name: Name}, &corev1.ConfigMap{}, &corev1.Secret{}
	for _, obj := range []client.Object{trusted, secret} {
		err := s.Client.Get(ctx, key, obj)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the authority that agents trust: %w", err)
		}
	}
	if !strings.Contains(trusted.Data[bundleKey], string(bytes.TrimSpace(secret.Data[certKey]))) {
		return nil, nil
	}
	own, err := signed(secret.Data, now)
	if err != nil {
		return nil, fmt.Errorf("reading the endpoint's authority from Secret %s, which agents trust: %w", key, err)
	}
	return own, nil
}

// leave returns the certificate to serve instead of one by our own authority, and the time of the
// next check, while agents that trust the user's certificate learn to trust ours. It returns nil if
// they trust ours, or if the user gave no certificate.
func (s *Source) leave(ctx context.Context, own *given) (*given, time.Time, error) {
	key, now := client.ObjectKey{Namespace: s.Secret.Namespace, Name: ShownName}, s.Now()
	kept := &corev1.Secret{}
	if err := s.Client.Get(ctx, key, kept); err != nil {
		return nil, time.Time{}, client.IgnoreNotFound(err)
	}
	if before, err := check(kept.Data, s.opts.Names, now); err == nil {
		out, at := own.after(before, now)
		if until := out.data[useNextKey]; len(until) > 0 {
			_, err := certificate.Keep(ctx, s.Client, key, "which certificate the endpoint serves", func(*corev1.Secret) (map[string][]byte, error) { return out.data, nil })
			s.announce(ctx, "a certificate of the manager's own authority", string(until))
			return out, at, err
		}
	}
	if len(kept.Data[useNextKey]) > 0 {
		s.report(ctx, corev1.EventTypeNormal, rkev1.CertificateAnnouncedReason, "no other certificate is announced: the endpoint serves a certificate of the manager's own authority")
	}
	if err := s.Client.Delete(ctx, kept); client.IgnoreNotFound(err) != nil {
		return nil, time.Time{}, fmt.Errorf("deleting the previous certificate: %w", err)
	}
	return nil, time.Time{}, nil
}
