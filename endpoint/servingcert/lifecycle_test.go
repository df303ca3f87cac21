package servingcert

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/endpoint/certificate"
)

// follower is a replica that runs Start on the bubble's clock, and the bundles it was told of.
type follower struct {
	*Source

	told   [][]byte
	last   []byte
	paths  []string
	refuse int
}

func follow(t *testing.T, c client.WithWatch) *follower {
	t.Helper()
	f := &follower{}
	var err error
	f.Source, err = Load(t.Context(), Options{Client: c, Secret: key, Names: []string{name}, Changed: func(_ context.Context, bundle []byte, path string) error {
		if f.refuse > 0 {
			f.refuse--
			return errors.New("the API server is away")
		}
		if f.paths = append(f.paths, path); !bytes.Equal(bundle, f.last) {
			f.told, f.last = append(f.told, bundle), bundle
		}
		return nil
	}})
	require.NoError(t, err)
	f.last = f.CABundle()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- f.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	synctest.Wait()
	return f
}

// pass lets time go by, all work of it included.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// A manager that runs for years shows a good certificate on each day, and says so when its authority changes.
func TestStart_yearsGoBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := follow(t, fake.NewClientBuilder().Build()), (*follower)(nil)
		second = follow(t, first.opts.Client)
		trusted := first.CABundle()
		certificates, months := map[string]bool{}, 0
		for ; months < 12*25; months++ {
			for _, f := range []*follower{first, second} {
				require.NoError(t, verify(t, f.Source, f.CABundle(), time.Now()), "month %d", months)
				if len(f.told) == 0 {
					require.NoError(t, verify(t, f.Source, trusted, time.Now()), "month %d: what the API server knows is enough", months)
				}
				certificates[string(f.current.Load().cert.Certificate[0])] = true
			}
			require.Equal(t, first.CABundle(), second.CABundle(), "month %d", months)
			pass(30 * 24 * time.Hour)
		}
		require.GreaterOrEqual(t, len(certificates), 100, "a new one each two months")
		require.LessOrEqual(t, len(certificates), 160, "the replicas share them")
		require.Len(t, first.told, 2, "an authority lives nine years before the next")
		require.Equal(t, first.told, second.told)
		require.Contains(t, string(first.told[0]), string(trusted), "the old authority stays in the bundle")
		require.Equal(t, 2, strings.Count(string(first.CABundle()), "BEGIN CERTIFICATE"), "what has expired leaves the bundle")
	})
}

// Whoever could not be told is told again: the API server would otherwise refuse our certificate for ever.
func TestStart_tellsAgainAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, fake.NewClientBuilder().Build())
		f.refuse = 3
		data, err := renew(nil, []string{name}, time.Now())
		require.NoError(t, err)
		secret := &corev1.Secret{}
		require.NoError(t, f.opts.Client.Get(t.Context(), key, secret))
		secret.Data = data
		require.NoError(t, f.opts.Client.Update(t.Context(), secret))
		synctest.Wait()
		require.Empty(t, f.told)
		require.Equal(t, 2, f.refuse, "asked once so far")
		pass(4 * certificate.RetryDelay)
		require.Equal(t, [][]byte{data[caCertKey]}, f.told, "once it went well it is not repeated")
		require.Equal(t, data[caCertKey], f.CABundle())
	})
}

// What the API server was told is good with every replica until it is told another, and no longer; nobody can guess it.
func TestStart_pathsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := follow(t, fake.NewClientBuilder().Build())
		second := follow(t, first.opts.Client)
		elsewhere := follow(t, fake.NewClientBuilder().Build())
		seen := map[string]bool{}
		for range 50 {
			path := first.Path()
			require.Equal(t, path, second.Path(), "replicas agree without a word")
			require.Regexp(t, "^/[0-9a-f]{32}$", path)
			require.False(t, seen[path])
			seen[path] = true
			for _, f := range []*follower{first, second} {
				rest, ok := f.Strip(path + "/validate-a")
				require.True(t, ok)
				require.Equal(t, "/validate-a", rest)
				for _, other := range []string{"", "/", path, path[1:], "//validate-a", "/validate-a", path + "0/validate-a", path[:20] + "/validate-a", elsewhere.Path() + "/validate-a"} {
					_, ok := f.Strip(other)
					require.False(t, ok, other)
				}
			}
			first.refuse = 1
			pass(time.Until(time.Now().Truncate(period).Add(period)))
			for _, f := range []*follower{first, second} {
				_, ok := f.Strip(path + "/validate-a")
				require.True(t, ok, "the API server may not have seen the new one, or could not be told")
			}
			pass(2 * overlap)
			_, ok := first.Strip(path + "/validate-a")
			require.False(t, ok, "who has seen an old one is not answered")
		}
		require.Len(t, first.paths, 50, "told once each")
	})
}

// Somebody deletes the Secret of a running manager: the certificate that is shown and the bundle go on to agree.
func TestStart_mendsADeletedSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, fake.NewClientBuilder().Build())
		old := f.CABundle()
		for range 3 {
			secret := &corev1.Secret{}
			require.NoError(t, f.opts.Client.Get(t.Context(), key, secret))
			require.NoError(t, f.opts.Client.Delete(t.Context(), secret))
			synctest.Wait()
			require.NoError(t, f.opts.Client.Get(t.Context(), key, secret), "it is there again")
			require.NoError(t, verify(t, f.Source, secret.Data[caCertKey], time.Now()))
		}
		require.Len(t, f.told, 3)
		require.NotContains(t, f.told, old)
	})
}

// The watch breaks now and then, and sometimes cannot be had: the certificate is renewed all the same.
func TestStart_withoutAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watches := 0
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
				watches++
				if watches%2 == 1 {
					return nil, errors.New("no route to host")
				}
				found, err := c.Watch(ctx, list, opts...)
				if err == nil {
					time.AfterFunc(24*time.Hour, found.Stop)
				}
				return found, err
			},
		}).Build()
		f := follow(t, c)
		first := f.current.Load().cert.Certificate[0]
		pass(certLife)
		require.NoError(t, verify(t, f.Source, f.CABundle(), time.Now()))
		require.NotEqual(t, first, f.current.Load().cert.Certificate[0])
		require.Greater(t, watches, 100, "each is begun anew")
		require.Less(t, watches, 400, "but not in a hurry")
	})
}

func TestLoad_saysWhatTheServerRefused(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	conflict := apierrors.NewConflict(secrets, key.Name, errors.New("it changed"))
	exists := apierrors.NewAlreadyExists(secrets, key.Name)
	forbidden := apierrors.NewForbidden(secrets, key.Name, errors.New("RBAC"))
	const said = `secrets "drover-serving-cert" is forbidden: RBAC`
	const lost = "storing the serving certificate in Secret drover-system/drover-serving-cert: too many conflicting updates"
	for what, tt := range map[string]struct {
		get, create, update error
		there               bool
		err                 string
	}{
		"may not read":              {get: forbidden, err: "reading the serving certificate: " + said},
		"may not create":            {create: forbidden, err: "storing the serving certificate: " + said},
		"may not update":            {update: forbidden, there: true, err: "storing the serving certificate: " + said},
		"always another's conflict": {update: conflict, there: true, err: lost},
		"always another's Secret":   {create: exists, err: lost},
	} {
		t.Run(what, func(t *testing.T) {
			builder := fake.NewClientBuilder()
			if tt.there {
				at := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
				builder = builder.WithObjects(&corev1.Secret{ObjectMeta: at, Data: map[string][]byte{keyKey: []byte("MARKER")}})
			}
			c := builder.WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					return cmp.Or(tt.get, c.Get(ctx, key, obj, opts...))
				},
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return tt.create },
				Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return tt.update },
			}).Build()
			_, err := Load(t.Context(), Options{Client: c, Secret: key, Names: []string{name}})
			require.EqualError(t, err, tt.err)
			require.NotContains(t, err.Error(), "MARKER")
		})
	}
	for _, names := range [][]string{nil, {}, {""}, {name, ""}} {
		_, err := Load(t.Context(), Options{Client: fake.NewClientBuilder().Build(), Secret: key, Names: names})
		require.EqualError(t, err, "a serving certificate needs a name")
	}
}

// A Secret that was changed by hand is not trusted but for what fits together.
func TestParse_saysWhatIsWrong(t *testing.T) {
	now := time.Now()
	good, err := renew(nil, []string{name}, now)
	require.NoError(t, err)
	foreign, err := renew(nil, []string{name}, now)
	require.NoError(t, err)
	other, err := renew(nil, []string{"other.svc"}, now)
	require.NoError(t, err)
	for what, tt := range map[string]struct {
		change map[string][]byte
		err    string
	}{
		"another's key":       {map[string][]byte{keyKey: foreign[keyKey]}, "reading the serving certificate: tls: private key does not match public key"},
		"no certificate":      {map[string][]byte{certKey: nil}, "reading the serving certificate: tls: failed to find any PEM data in certificate input"},
		"no key":              {map[string][]byte{keyKey: []byte("MARKER")}, "reading the serving certificate: tls: failed to find any PEM data in key input"},
		"no authority":        {map[string][]byte{caCertKey: []byte("MARKER")}, "the authority's certificate is missing"},
		"no authority's key":  {map[string][]byte{caKeyKey: nil}, "the authority's key, which the webhooks' paths are derived from, is missing"}, // or everybody could tell the webhooks' path
		"another's authority": {map[string][]byte{caCertKey: foreign[caCertKey]}, "checking the serving certificate for " + name + ": x509: certificate signed by unknown authority"},
		"another name":        {map[string][]byte{certKey: other[certKey], keyKey: other[keyKey], caCertKey: other[caCertKey]}, "checking the serving certificate for " + name + ": x509: certificate is valid for other.svc, not " + name},
	} {
		t.Run(what, func(t *testing.T) {
			data := map[string][]byte{}
			for k, v := range good {
				data[k] = bytes.Clone(v)
			}
			maps.Copy(data, tt.change)
			_, err := parse(data, []string{name})
			require.ErrorContains(t, err, tt.err)
			require.NotContains(t, err.Error(), "MARKER")
		})
	}
}
