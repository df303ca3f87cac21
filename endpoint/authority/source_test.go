package authority_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-project/drover/endpoint/authority"
	"github.com/drover-project/drover/endpoint/certificate"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const host = "manager.test"

func options(c client.WithWatch, namespace string) authority.Options {
	return authority.Options{Client: c, Namespace: namespace, Names: []string{host, "198.18.0.1"}}
}

func load(t *testing.T, o authority.Options) *authority.Source {
	t.Helper()
	s, err := authority.Load(t.Context(), o)
	require.NoError(t, err)
	return s
}

// verify is what an agent does that trusts a bundle.
func verify(t *testing.T, s *authority.Source, bundle []byte, name string) error {
	t.Helper()
	pair, err := s.GetCertificate(nil)
	require.NoError(t, err)
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(bundle))
	for _, der := range pair.Certificate[1:] {
		cert, err := x509.ParseCertificate(der)
		require.NoError(t, err)
		between.AddCert(cert)
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: between, CurrentTime: time.Now()})
	return err
}

func sumOf(bundle []byte) string {
	sum := sha256.Sum256(bundle)
	return hex.EncodeToString(sum[:])
}

// world is a namespace on a real API server.
type world struct {
	client.WithWatch
	*testing.T
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{T: t, WithWatch: testkit.Client(t, clientgoscheme.Scheme), namespace: testkit.Namespace(t)}
}

func (w *world) secret(name string) *corev1.Secret {
	w.Helper()
	return testkit.ExpectExists(w.T, w.WithWatch, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}})
}

// All replicas, at once and later, have one authority; a start writes nothing.
func TestLoad(t *testing.T) {
	w := newWorld(t)
	made := make(chan *authority.Source)
	for range 4 {
		go func() {
			s, err := authority.Load(t.Context(), options(w, w.namespace))
			if err != nil {
				t.Error(err)
			}
			made <- s
		}()
	}
	first := <-made
	for _, s := range []*authority.Source{<-made, <-made, <-made} {
		require.Equal(t, first.Bundle(""), s.Bundle(""))
	}
	require.NoError(t, verify(t, first, first.Bundle(""), host))
	require.NoError(t, verify(t, first, first.Bundle(""), "198.18.0.1"))
	require.Error(t, verify(t, first, first.Bundle(""), "other.test"))
	require.Equal(t, sumOf(first.Bundle("")), first.Checksum())
	secret := w.secret(authority.Name)
	require.Equal(t, string(secret.Data["tls.crt"]), string(first.Bundle("")))
	known := testkit.ExpectExists(t, w, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: authority.Name}})
	require.Equal(t, map[string]string{"ca.crt": string(first.Bundle(""))}, known.Data)

	again := load(t, options(w, w.namespace))
	require.Equal(t, first.Derive("a"), again.Derive("a"))
	require.NotEqual(t, first.Derive("a"), again.Derive("b"))
	require.NoError(t, verify(t, again, first.Bundle(""), host))
	require.Equal(t, secret.ResourceVersion, w.secret(authority.Name).ResourceVersion)
}

// An agent that was told another host before verifies the endpoint by it, whichever of the last eight it was.
func TestLoad_anotherHost(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	names := []string{"a.test", "198.18.0.1", "2001:db8::1", "b.test", "a.test", "c.test", "d.test", "e.test", "f.test", "g.test", "h.test"}
	var s *authority.Source
	for i, name := range names {
		o := options(c, "drover-system")
		o.Names = []string{name}
		s = load(t, o)
		for _, before := range names[max(0, i-7) : i+1] {
			require.NoError(t, verify(t, s, s.Bundle(""), before), "%s, now %s", before, name)
		}
	}
	require.Error(t, verify(t, s, s.Bundle(""), "198.18.0.1"), "long ago")
}

// Who holds the authority may take it elsewhere; nobody gets another one by losing or breaking it.
func TestLoad_neverAnew(t *testing.T) {
	for what, tt := range map[string]struct {
		change func(w *world, secret *corev1.Secret)
		says   string
	}{
		"moved to another cluster": {change: func(w *world, secret *corev1.Secret) {
			w.namespace = testkit.Namespace(w.T)
			moved := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: secret.Name}, Type: secret.Type, Data: secret.Data}
			require.NoError(w, w.Create(w.Context(), moved))
		}},
		"moved as a pair alone": {change: func(w *world, secret *corev1.Secret) {
			delete(secret.Data, "ca.crt")
			require.NoError(w, w.Update(w.Context(), secret))
		}},
		"deleted": {func(w *world, secret *corev1.Secret) { require.NoError(w, w.Delete(w.Context(), secret)) },
			"the endpoint's authority does not exist, and agents trust no other: restore Secret "},
		"without its key": {func(w *world, secret *corev1.Secret) {
			secret.Data["tls.key"] = nil
			require.NoError(w, w.Update(w.Context(), secret))
		}, "which is not replaced, because agents trust it: reading keys tls.crt and tls.key"},
		"no authority": {func(w *world, secret *corev1.Secret) {
			pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
			require.NoError(w, err)
			secret.Data["tls.crt"], secret.Data["tls.key"], err = certificate.Serving([]string{host}, &pair, time.Now(), time.Now().Add(time.Hour))
			require.NoError(w, err)
			require.NoError(w, w.Update(w.Context(), secret))
		}, "the certificate of key tls.crt is not an authority"},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			trusted := load(t, options(w, w.namespace)).Bundle("")
			tt.change(w, w.secret(authority.Name))
			s, err := authority.Load(t.Context(), options(w, w.namespace))
			if tt.says != "" {
				require.ErrorContains(t, err, tt.says)
				return
			}
			require.NoError(t, err)
			require.NoError(t, verify(t, s, trusted, host))
			require.Equal(t, trusted, s.Bundle(""))
		})
	}
}

// running has a source kept fresh until the test ends.
func running(t *testing.T, o authority.Options) *authority.Source {
	t.Helper()
	s := load(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return s
}

// While a replica runs, what somebody deleted comes back.
func TestStart_putsBack(t *testing.T) {
	w := newWorld(t)
	s := running(t, options(w, w.namespace))
	secret := w.secret(authority.Name)
	require.NoError(t, w.Delete(t.Context(), secret.DeepCopy()))
	testkit.Eventually(t, time.Minute, func() error {
		return w.Get(t.Context(), client.ObjectKeyFromObject(secret), &corev1.Secret{})
	})
	require.Equal(t, secret.Data, w.secret(authority.Name).Data)
	require.Equal(t, string(secret.Data["tls.crt"]), string(s.Bundle("")))
}

// user is who gives certificates of his own.
type user struct {
	*testing.T
	ca tls.Certificate
	// bundle is what verifies them.
	bundle []byte
}

func newUser(t *testing.T, name string) *user {
	t.Helper()
	now := time.Now()
	cert, key, err := certificate.Authority(name, now, now.Add(1000*time.Hour))
	require.NoError(t, err)
	ca, err := tls.X509KeyPair(cert, key)
	require.NoError(t, err)
	return &user{T: t, ca: ca, bundle: cert}
}

// gives is the data of a Secret with a certificate, and with what is to be in ca.crt.
func (u *user) gives(bundle []byte, life time.Duration, names ...string) map[string][]byte {
	u.Helper()
	now := time.Now()
	cert, key, err := certificate.Serving(names, &u.ca, now.Add(-time.Hour), now.Add(life))
	require.NoError(u, err)
	data := map[string][]byte{"tls.crt": cert, "tls.key": key}
	if bundle != nil {
		data["ca.crt"] = bundle
	}
	return data
}

// The user's certificate is shown as it is; a wrong one leaves the one before, also after a start, which without one before is an error that names the Secret.
func TestGiven(t *testing.T) {
	w := newWorld(t)
	u, other := newUser(t, "the user's"), newUser(t, "another")
	o := options(w, w.namespace)
	o.Given = "mine"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "mine"}, Type: corev1.SecretTypeTLS,
		Data: u.gives(nil, time.Hour, o.Names...)}
	_, err := authority.Load(t.Context(), o)
	require.ErrorContains(t, err, "reading the endpoint's certificate from Secret "+w.namespace+"/mine, which --agents-cert-secret names: secrets \"mine\" not found")
	require.NoError(t, w.Create(t.Context(), secret))
	s := load(t, o)
	require.NoError(t, verify(t, s, u.bundle, host))
	require.Empty(t, s.Bundle(""), "the system's authorities verify it")
	require.Empty(t, s.Checksum())

	broken := u.gives(u.bundle, time.Hour, o.Names...)
	broken["tls.key"] = []byte("none")
	for _, tt := range []struct {
		data map[string][]byte
		says string
	}{
		{u.gives(u.bundle, time.Hour, "other.test"), "the certificate is not for the server URL: "},
		{u.gives(u.bundle, -time.Minute, o.Names...), "the certificate has expired at "},
		{broken, "reading keys tls.crt and tls.key: "},
		{u.gives([]byte("garbage"), time.Hour, o.Names...), "ca.crt contains no valid certificate, or all have expired"},
		{u.gives(other.bundle, time.Hour, o.Names...), "ca.crt does not verify tls.crt, so agents would reject it: "},
	} {
		secret.Data = tt.data
		require.NoError(t, w.Update(t.Context(), secret))
		for _, shows := range []*authority.Source{s, load(t, o)} {
			_, err = shows.Look(t.Context(), true)
			require.ErrorContains(t, err, "reading the endpoint's certificate from Secret "+w.namespace+"/mine: "+tt.says)
			require.NoError(t, verify(t, shows, u.bundle, host))
			require.Empty(t, shows.Bundle(""))
		}
	}
	require.NoError(t, w.Delete(t.Context(), w.secret(authority.ShownName)))
	_, err = authority.Load(t.Context(), o)
	require.ErrorContains(t, err, "ca.crt does not verify tls.crt, so agents would reject it: ")

	secret.Data = u.gives(u.bundle, time.Hour, o.Names...)
	require.NoError(t, w.Update(t.Context(), secret))
	_, err = s.Look(t.Context(), true)
	require.NoError(t, err)
	require.NoError(t, verify(t, s, s.Bundle(""), host))
	version := w.secret(authority.ShownName).ResourceVersion
	require.Equal(t, s.Bundle(""), load(t, o).Bundle(""))
	require.Equal(t, version, w.secret(authority.ShownName).ResourceVersion, "a start writes nothing")
	testkit.ExpectNotFound(t, w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: authority.Name}})

	// With all that a system trusts: no part of that is remembered.
	many := append(bytes.Clone(u.bundle), other.bundle...)
	for range 20 {
		many = append(many, newUser(t, "a system's").bundle...)
	}
	secret.Data = u.gives(many, time.Hour, o.Names...)
	require.NoError(t, w.Update(t.Context(), secret))
	_, err = s.Look(t.Context(), true)
	require.NoError(t, err)
	require.Equal(t, many, s.Bundle(sumOf(many)))
	require.Equal(t, many, s.Bundle(sumOf(other.bundle)))
}

// pass lets time go by, all work of it included.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Through three authorities: an agent that renews is always let in, and so is one that was off for most of a year, and a server that was told an
// earlier bundle's checksum.
func TestStart_yearsGoBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientBuilder().Build()
		first, second := running(t, options(c, "drover-system")), running(t, options(c, "drover-system"))
		synctest.Wait()
		const month = 30 * 24 * time.Hour
		var trusted [][]byte
		bundles, certificates := map[string]bool{}, map[string]bool{}
		for m := range 12 * 25 {
			bundle := first.Bundle("")
			require.Equal(t, bundle, second.Bundle(""), "month %d", m)
			trusted = append(trusted, bundle)
			bundles[string(bundle)] = true
			for _, s := range []*authority.Source{first, second} {
				off := trusted[max(0, len(trusted)-11)]
				require.NoError(t, verify(t, s, bundle, host), "month %d", m)
				require.NoError(t, verify(t, s, off, host), "month %d: off for ten months", m)
				if bytes.Contains(bundle, off) {
					require.Equal(t, off, s.Bundle(sumOf(off)), "month %d: a server that was told the checksum of then", m)
				}
				pair, err := s.GetCertificate(nil)
				require.NoError(t, err)
				certificates[string(pair.Certificate[0])] = true
			}
			pass(month)
		}
		require.Len(t, bundles, 6, "one, two, one, two, one, two")
		require.LessOrEqual(t, strings.Count(string(first.Bundle("")), "BEGIN"), 2, "what has expired leaves the bundle")
		require.Greater(t, len(certificates), 250, "a new one each two months")
	})
}

// On request the successor is trusted at once and used a day later, once for each value; an agent that was off meanwhile gets in, also when there were more.
func TestStart_rotatesOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientBuilder().Build()
		s := running(t, options(c, "drover-system"))
		synctest.Wait()
		old := s.Bundle("")
		ask := func(value string) {
			secret := testkit.ExpectExists(t, c, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "drover-system", Name: authority.Name}})
			metav1.SetMetaDataAnnotation(&secret.ObjectMeta, authority.RotateAnnotation, value)
			require.NoError(t, c.Update(t.Context(), secret))
			pass(time.Minute)
		}
		secretKey := s.Derive("ticket")
		ask("because")
		both := s.Bundle("")
		require.Equal(t, 2, bytes.Count(both, []byte("BEGIN")))
		require.True(t, bytes.HasPrefix(both, old))
		next := bytes.TrimPrefix(both, old)
		require.Error(t, verify(t, s, next, host), "nobody trusts it yet")
		require.Equal(t, secretKey, s.Derive("ticket"))
		pass(25 * time.Hour)
		for what, bundle := range map[string][]byte{"renewed": both, "told only now": next, "off all day": old} {
			require.NoError(t, verify(t, s, bundle, host), what)
		}
		require.NotEqual(t, secretKey, s.Derive("ticket"))
		ask("because")
		pass(25 * time.Hour)
		require.Equal(t, both, s.Bundle(""), "it is obeyed")
		ask("again")
		all := s.Bundle("")
		pass(25 * time.Hour)
		for what, bundle := range map[string][]byte{"renewed": all, "off for one": both, "off for two": old} {
			require.NoError(t, verify(t, s, bundle, host), what)
		}
		// Keys were stolen: the administrator takes them out.
		next = bytes.TrimPrefix(all, both)
		secret := testkit.ExpectExists(t, c, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "drover-system", Name: authority.Name}})
		secret.Data["ca.crt"] = next
		delete(secret.Data, "cross.crt")
		require.NoError(t, c.Update(t.Context(), secret))
		pass(time.Minute)
		require.NoError(t, verify(t, s, next, host))
		require.Equal(t, next, s.Bundle(""))
		require.Error(t, verify(t, s, old, host), "what was signed by it is trusted nowhere any more")
		ask("once more")
		require.Equal(t, 2, bytes.Count(s.Bundle(""), []byte("BEGIN")))
		// Who asks every month makes nothing grow without end.
		var told [][]byte
		for i := range 24 {
			ask(fmt.Sprint(i))
			told = append(told, s.Bundle(""))
			pass(25 * time.Hour)
			for _, before := range told[max(0, i-8):] {
				require.NoError(t, verify(t, s, before, host))
				require.Equal(t, before, s.Bundle(sumOf(before)), "a server that was told the checksum of then")
			}
		}
		require.Equal(t, 10, bytes.Count(s.Bundle(""), []byte("BEGIN")))
		secret = testkit.ExpectExists(t, c, secret)
		require.Equal(t, 18, bytes.Count(secret.Data["ca.crt"], []byte("BEGIN")))
	})
}

// A certificate of the user's by another authority is shown when agents had a day to trust that one; through all changes an agent that renews gets in,
// and so does a server that was told what was served a moment before.
func TestGiven_anotherAuthority(t *testing.T) {
	first, second := "first", "second"
	for _, tt := range []struct {
		name string
		// by are the authorities of the certificate that is given, one after the other, and system says that there is no ca.crt.
		by     []string
		system [2]bool
		waits  bool
	}{
		{"renewed by the same", []string{first, first}, [2]bool{}, false},
		{"by another", []string{first, second}, [2]bool{}, true},
		{"by one that servers know", []string{first, second}, [2]bool{false, true}, true},
		{"by one that servers do not know", []string{first, second}, [2]bool{true, false}, true},
		{"by others that servers know", []string{first, second}, [2]bool{true, true}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				users := map[string]*user{first: newUser(t, first), second: newUser(t, second)}
				o := options(fake.NewClientBuilder().Build(), "drover-system")
				o.Given = "mine"
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "drover-system", Name: "mine"}}
				var system []byte
				give := func(i int) {
					u := users[tt.by[i]]
					bundle := u.bundle
					if tt.system[i] {
						bundle, system = nil, append(system, u.bundle...)
					}
					secret.Data = u.gives(bundle, 100*time.Hour, o.Names...)
				}
				give(0)
				require.NoError(t, o.Client.Create(t.Context(), secret))
				one, two := running(t, o), running(t, o)
				synctest.Wait()
				verified := func(s *authority.Source, bundle []byte) error {
					if len(bundle) == 0 {
						bundle = system
					}
					return verify(t, s, bundle, host)
				}
				old := one.Bundle("")
				give(1)
				require.NoError(t, o.Client.Update(t.Context(), secret))
				pass(time.Minute)
				told := one.Bundle("")
				sources := []*authority.Source{one, two, running(t, o)} // one starts meanwhile
				for _, s := range sources {
					require.Equal(t, told, s.Bundle(""))
					require.NoError(t, verified(s, old))
					require.NoError(t, verified(s, told))
					if len(old) > 0 {
						require.Equal(t, old, s.Bundle(sumOf(old)))
					}
				}
				require.Equal(t, tt.waits, verify(t, one, users[tt.by[1]].bundle, host) != nil)
				pass(25 * time.Hour)
				for _, s := range sources {
					require.NoError(t, verify(t, s, users[tt.by[1]].bundle, host))
					require.Equal(t, string(secret.Data["ca.crt"]), string(s.Bundle("")))
					require.NoError(t, verified(s, told))
					if len(told) > 0 {
						require.Equal(t, told, s.Bundle(sumOf(told)))
					}
				}
			})
		})
	}
}

// From the manager's own authority to the user's certificate, and back: an agent that runs learns what verifies the next one before it is shown, nobody who
// runs is ever shown what he does not trust, and no certificate of an earlier spell comes back.
func TestGiven_andOurOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientBuilder().Build()
		var told []string
		own := options(c, "drover-system")
		own.Tell = func(kind, reason, what string) { told = append(told, kind+" "+reason) }
		u, other := newUser(t, "the user's"), newUser(t, "another")
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "drover-system", Name: "mine"}, Data: u.gives(u.bundle, 900*time.Hour, own.Names...)}
		require.NoError(t, c.Create(t.Context(), secret))
		mine := own
		mine.Given = "mine"
		// begin starts a replica, and ends the one before: agents that run have trusted what that served.
		var end context.CancelFunc
		begin := func(o authority.Options) *authority.Source {
			if end != nil {
				end()
				synctest.Wait()
			}
			ctx, cancel := context.WithCancel(t.Context())
			end = cancel
			s := load(t, o)
			go func() { _ = s.Start(ctx) }()
			synctest.Wait()
			return s
		}
		s := begin(own)
		trusted := s.Bundle("")
		for _, to := range []struct {
			options authority.Options
			by      *user
		}{{mine, u}, {own, nil}, {mine, u}} {
			told = nil
			s = begin(to.options)
			require.Equal(t, []string{"Normal CertificateAnnounced"}, told)
			require.NoError(t, verify(t, s, trusted, host), "who runs gets in")
			require.Equal(t, trusted, s.Bundle(sumOf(trusted)), "and so does a server that was told of it")
			both := s.Bundle("")
			pass(time.Hour)
			s = begin(to.options) // a restart announces nothing anew
			require.Equal(t, both, s.Bundle(""))
			require.NoError(t, verify(t, s, trusted, host))
			pass(24 * time.Hour)
			require.NoError(t, verify(t, s, both, host))
			trusted = s.Bundle("")
			require.NoError(t, verify(t, s, trusted, host))
			if to.by != nil {
				require.Equal(t, to.by.bundle, trusted)
			} else {
				require.NotContains(t, string(trusted), string(u.bundle))
				testkit.ExpectNotFound(t, c, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "drover-system", Name: authority.ShownName}})
			}
		}
		// Who loses what is kept of the user's is not shown our own again, which no agent trusts any more.
		shown := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "drover-system", Name: authority.ShownName}}
		require.NoError(t, c.Delete(t.Context(), shown))
		require.NoError(t, verify(t, begin(mine), trusted, host))
		// Taken back before its day has come: our own was shown all the time.
		s = begin(own)
		pass(25 * time.Hour)
		before := s.Bundle("")
		secret.Data = other.gives(nil, 100*time.Hour, own.Names...)
		require.NoError(t, c.Update(t.Context(), secret))
		require.NoError(t, verify(t, begin(mine), before, host))
		told = nil
		s = begin(own)
		require.NoError(t, verify(t, s, before, host))
		require.Equal(t, before, s.Bundle(""))
		require.Equal(t, []string{"Normal CertificateAnnounced"}, told, "that it was taken back")
		// Servers are to verify it by their own authorities, and nobody is known who has signed it.
		told = nil
		s = begin(mine)
		require.Equal(t, []string{"Warning CertificateUnverified", "Normal CertificateAnnounced"}, told, "a day before it is shown")
		pass(25 * time.Hour)
		require.NoError(t, verify(t, s, other.bundle, host))
		end()
		synctest.Wait()
	})
}
