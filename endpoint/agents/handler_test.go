package agents_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/api/connect"
	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/endpoint"
	"github.com/drover-project/drover/endpoint/agents"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) {
	if err := errors.Join(agents.RegisterMetrics(), endpoint.RegisterMetrics()); err != nil {
		panic(err)
	}
	testkit.Main(m)
}

// manager is an endpoint with a machine's plan Secret behind it, as the bootstrap provider makes it.
type manager struct {
	client.Client
	*testing.T
	server *httptest.Server
	events *events.FakeRecorder
	// config is the way of the agent that got access last, and answer what it got.
	config *rest.Config
	answer connect.Answer
	secret *corev1.Secret
	token  connect.Token
	skew   time.Duration
	// direct has requests go to the handler without a connection, of which a stranger needs one for each.
	direct bool
}

func newManager(t *testing.T) *manager {
	t.Helper()
	m := &manager{T: t, Client: testkit.Client(t, clientgoscheme.Scheme), events: events.NewFakeRecorder(100)}
	m.secret, m.token = m.machine("one-machine-plan")
	m.server = httptest.NewTLSServer(nil)
	t.Cleanup(m.server.Close)
	m.serve()
	return m
}

// serve answers with the client of the moment.
func (m *manager) serve() {
	m.Helper()
	t := m.T
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "drover-agent-linux-amd64"), []byte("an agent"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret.txt"), []byte("not an agent"), 0o600))
	assets, err := agents.LoadAssets(dir)
	require.NoError(t, err)
	handler, err := agents.New(agents.Options{Client: m.Client, API: testkit.Config(t), Server: m.server.URL, Authorities: m.authorities, Assets: assets,
		InstallScript: func() ([]byte, error) { return []byte("#!/bin/sh\n"), nil }, Recorder: m.events, Self: m.secret, TicketSecret: func() []byte { return ticketSecret },
		Now: func() time.Time { return time.Now().Add(m.skew) }})
	require.NoError(t, err)
	m.server.Config.Handler = handler
}

// machine makes the plan Secret of a machine with its ServiceAccount and Role, in a namespace of its own.
func (m *manager) machine(name string) (*corev1.Secret, connect.Token) {
	m.Helper()
	namespace := testkit.Namespace(m.T)
	token := connect.NewToken(namespace, name)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "rke.cattle.io/v1", Kind: "RKEBootstrap", Name: name, UID: types.UID(name), Controller: new(true)}}}
	secret := &corev1.Secret{ObjectMeta: meta, Type: plan.SecretType, Data: map[string][]byte{plan.KeyTokenHash: []byte(token.Hash())}}
	for _, obj := range []client.Object{secret, &corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{name},
			Verbs: []string{"get", "list", "watch", "update"}}}},
		&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}}} {
		require.NoError(m, m.Create(m.Context(), obj))
	}
	return secret, token
}

// authorities are what the endpoint is verified by; a server was told of others before.
func (m *manager) authorities(checksum string) []byte {
	if checksum == "of-then" {
		return []byte("those of then")
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.server.Certificate().Raw})
}

func (m *manager) do(method, path string, header http.Header, body []byte) (int, string) {
	m.Helper()
	if m.direct {
		w, req := httptest.NewRecorder(), httptest.NewRequestWithContext(m.Context(), method, path, bytes.NewReader(body))
		req.Header, req.RemoteAddr = header, "127.0.0.1:1"
		m.server.Config.Handler.ServeHTTP(w, req)
		return w.Code, w.Body.String()
	}
	req, err := http.NewRequestWithContext(m.Context(), method, m.server.URL+path, bytes.NewReader(body))
	require.NoError(m, err)
	req.Header = header
	resp, err := m.server.Client().Do(req)
	require.NoError(m, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(m, err)
	return resp.StatusCode, string(text)
}

// agent is one that calls with its key.
type agent struct {
	key   ed25519.PrivateKey
	token string
	at    client.ObjectKey
	time  time.Time
	// ticket is what a known one shows.
	ticket string
	// server is what the agent says of its server.
	server string
}

func newAgent(seed byte, token string) agent {
	return agent{key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)), token: token}
}

func (m *manager) register(a agent) (int, string) {
	m.Helper()
	if a.time.IsZero() {
		a.time = time.Now().Add(m.skew)
	}
	body, err := json.Marshal(connect.Request{PublicKey: a.key.Public().(ed25519.PublicKey), Time: a.time, Nonce: []byte("n"),
		Namespace: a.at.Namespace, SecretName: a.at.Name, CloudServer: a.server})
	require.NoError(m, err)
	header := http.Header{connect.SignatureHeader: {connect.Sign(a.key, body)}}
	if a.token != "" {
		header.Set("Authorization", "Bearer "+a.token)
	}
	if a.ticket != "" {
		header.Set(connect.TicketHeader, a.ticket)
	}
	return m.do(http.MethodPost, connect.Path, header, body)
}

// change changes the plan Secret's data.
func (m *manager) change(do func(map[string][]byte)) {
	m.Helper()
	require.NoError(m, m.Get(m.Context(), client.ObjectKeyFromObject(m.secret), m.secret))
	do(m.secret.Data)
	require.NoError(m, m.Update(m.Context(), m.secret))
}

// refuses has an agent register in vain.
func (m *manager) refuses(a agent, says, name string) {
	m.Helper()
	code, text := m.register(a)
	require.Equal(m, http.StatusUnauthorized, code, name)
	require.Equal(m, says+"\n", text, name)
}

// access registers and gives the agent's way to the API server, which leads through the endpoint.
func (m *manager) access(a agent) *kubernetes.Clientset {
	m.Helper()
	code, text := m.register(a)
	require.Equal(m, http.StatusOK, code, text)
	got, err := connect.DecodeAnswer([]byte(text))
	require.NoError(m, err)
	require.WithinDuration(m, time.Now().Add(6*time.Hour), *got.ExpiresAt, 2*time.Minute)
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(got.KubeConfig))
	require.NoError(m, err)
	require.Equal(m, m.server.URL, config.Host)
	m.config, m.answer = config, got
	set, err := kubernetes.NewForConfig(config)
	require.NoError(m, err)
	return set
}

// When an agent was given access last stands on its plan Secret, and is written anew when it renews as it has to.
func TestRegister_seen(t *testing.T) {
	m := newManager(t)
	seen := func() time.Time {
		at, err := time.Parse(time.RFC3339, testkit.ExpectExists(t, m.Client, m.secret.DeepCopy()).Annotations[rkev1.AgentSeenAnnotation])
		require.NoError(t, err)
		return at
	}
	one := newAgent(1, m.token.String())
	m.access(one)
	first := seen()
	require.WithinDuration(t, time.Now(), first, time.Minute)
	version := testkit.ExpectExists(t, m.Client, m.secret.DeepCopy()).ResourceVersion
	m.skew = time.Hour
	one.token, one.at = "", client.ObjectKeyFromObject(m.secret)
	code, text := m.register(one)
	require.Equal(t, http.StatusOK, code, text)
	require.Equal(t, version, testkit.ExpectExists(t, m.Client, m.secret.DeepCopy()).ResourceVersion, "it need not have asked")
	m.skew = 3 * time.Hour
	code, text = m.register(one)
	require.Equal(t, http.StatusOK, code, text)
	require.WithinDuration(t, first.Add(3*time.Hour), seen(), time.Minute)
}

// TestRegister_server: the plan Secret names the server of the agent that is bound, as the cloud names it.
func TestRegister_server(t *testing.T) {
	for told, want := range map[string]string{"vultr/cb676a46": "vultr/cb676a46", "": "", "vultr/a b": "", "x": ""} {
		m := newManager(t)
		one := newAgent(1, m.token.String())
		one.server = told
		m.access(one)
		second := newAgent(2, m.token.String())
		second.server = "vultr/another"
		m.refuses(second, "this token was used by another agent", "a second server")
		annotations := testkit.ExpectExists(t, m.Client, m.secret.DeepCopy()).Annotations
		require.Equal(t, want, annotations[rkev1.AgentServerAnnotation])

		next := connect.NewToken(m.secret.Namespace, m.secret.Name)
		m.change(func(data map[string][]byte) { data[plan.KeyTokenHash] = []byte(next.Hash()) })
		m.access(newAgent(3, next.String()))
		require.NotContains(t, testkit.ExpectExists(t, m.Client, m.secret.DeepCopy()).Annotations, rkev1.AgentServerAnnotation, "the next agent does not know")
	}
}

// A token that was made for another create attempt registers the agent of that attempt's server, whoever was there before; it is good for one as well.
func TestRegister_anotherAttempt(t *testing.T) {
	m := newManager(t)
	first := newAgent(1, m.token.String())
	m.access(first)
	next := connect.NewToken(m.secret.Namespace, m.secret.Name)
	m.change(func(data map[string][]byte) {
		data[plan.KeyTokenHash], data[plan.KeyAgentStatus] = []byte(next.Hash()), []byte("{}")
		data[plan.KeyPlan], data[plan.KeyState], data[plan.KeyAppliedChecksum] = []byte("{}"), []byte("succeeded"), []byte("x")
	})
	first.token, first.at = "", client.ObjectKeyFromObject(m.secret)
	m.access(first) // the server may still be the first one

	m.access(newAgent(2, next.String()))
	var before map[string][]byte
	m.change(func(data map[string][]byte) {
		require.NotContains(t, data, plan.KeyAgentStatus)
		require.NotContains(t, data, plan.KeyAppliedChecksum)
		require.Equal(t, "pending", string(data[plan.KeyState]))
		before = data
	})
	for name, tt := range map[string]struct {
		agent agent
		says  string
	}{
		"the first by its key":   {first, "this token or key is unknown; docs/endpoint.md describes how an agent that has lost its key registers again"},
		"the first by its token": {newAgent(1, m.token.String()), "this token or key is unknown; docs/endpoint.md describes how an agent that has lost its key registers again"},
		"a third":                {newAgent(3, next.String()), "this token was used by another agent"},
	} {
		m.refuses(tt.agent, tt.says, name)
	}
	m.change(func(data map[string][]byte) { require.Equal(t, before, data) })
}

// One token registers one agent: it may ask again, also without the token; nobody else gets in with it, and that is told.
func TestRegister(t *testing.T) {
	m := newManager(t)
	first, second := newAgent(1, m.token.String()), newAgent(2, m.token.String())
	m.access(first)
	m.access(first)
	m.refuses(second, "this token was used by another agent", "the token again")
	require.Contains(t, <-m.events.Events, "Warning TokenReplayed")

	renewing := first
	renewing.token, renewing.at = "", client.ObjectKeyFromObject(m.secret)
	m.skew += time.Minute
	m.access(renewing)

	m.change(func(data map[string][]byte) { delete(data, plan.KeyTokenHash) })
	m.skew += time.Minute
	m.access(first) // burned, and known by its key
	m.refuses(second, "this token was used by another agent", "a burned token with another key")
	require.Contains(t, <-m.events.Events, "Warning TokenReplayed")
	for name, stranger := range map[string]agent{
		"a guessed token":                 newAgent(2, connect.NewToken(m.secret.Namespace, m.secret.Name).String()),
		"a token of a Secret that is not": newAgent(2, connect.NewToken(m.secret.Namespace, "other").String()),
		"no token at all":                 {key: second.key, at: renewing.at},
		"nothing but a key":               {key: first.key},
		"no token of ours":                newAgent(1, "eyJhbGciOi"),
	} {
		m.refuses(stranger, "this token or key is unknown; docs/endpoint.md describes how an agent that has lost its key registers again", name)
	}
	require.Empty(t, m.events.Events)
}

// Two agents come with one token at the same moment: one gets in.
func TestRegister_race(t *testing.T) {
	m := newManager(t)
	var seed atomic.Int32
	count, _ := m.many(8, 8, func() agent { return newAgent(byte(seed.Add(1)), m.token.String()) }, func() {})
	require.Equal(t, map[int]float64{http.StatusOK: 1, http.StatusUnauthorized: 7}, count)
}

// Somebody else writes the plan Secret between the endpoint's reading and writing it: the key is bound all the same, not only believed to be.
func TestRegister_conflict(t *testing.T) {
	m := newManager(t)
	conflicts := 0
	m.Client = interceptor.NewClient(testkit.Client(t, clientgoscheme.Scheme), interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			if conflicts++; conflicts == 1 {
				other := m.secret.DeepCopy()
				other.Data[plan.KeyProbePeriod] = []byte("5")
				require.NoError(t, c.Update(ctx, other))
			}
			return c.Update(ctx, obj, opts...)
		}})
	m.serve()
	m.access(newAgent(1, m.token.String()))
	require.Equal(t, 2, conflicts)
	require.NoError(t, m.Get(t.Context(), client.ObjectKeyFromObject(m.secret), m.secret))
	require.NotEmpty(t, m.secret.Data[plan.KeyAgentPublicKey])
	code, _ := m.register(newAgent(2, m.token.String()))
	require.Equal(t, http.StatusUnauthorized, code)
}

func TestRegister_clock(t *testing.T) {
	m := newManager(t)
	a := newAgent(1, m.token.String())
	for _, off := range []time.Duration{-connect.MaxSkew, connect.MaxSkew} {
		a.time = time.Now().Add(off + off/10)
		code, _ := m.register(a)
		require.Equal(t, http.StatusConflict, code)
	}
	a.time = time.Now().Add(connect.MaxSkew / 2)
	m.access(a)
}

// Who may make Secrets gets by them no token of an account that was there before, nor of one that he has our controller make for another Secret.
func TestRegister_anothersAccount(t *testing.T) {
	m := newManager(t)
	for name, owners := range map[string][]metav1.OwnerReference{
		"privileged": nil,
		"another":    {{APIVersion: "rke.cattle.io/v1", Kind: "RKEBootstrap", Name: "another", UID: "1", Controller: new(true)}},
	} {
		token := connect.NewToken(m.secret.Namespace, name)
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: token.Namespace, Name: name, OwnerReferences: owners}}
		forged := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: token.Namespace, Name: name, OwnerReferences: m.secret.OwnerReferences},
			Type: plan.SecretType, Data: map[string][]byte{plan.KeyTokenHash: []byte(token.Hash())}}
		require.NoError(t, m.Create(t.Context(), account))
		require.NoError(t, m.Create(t.Context(), forged))
		code, text := m.register(newAgent(1, token.String()))
		require.Equal(t, http.StatusUnauthorized, code, text)
	}
}

// An agent reads, writes and watches its own plan Secret, and nothing else.
func TestPassThrough(t *testing.T) {
	m := newManager(t)
	other, _ := m.machine("other-machine-plan")
	set := m.access(newAgent(1, m.token.String()))
	secrets := set.CoreV1().Secrets(m.secret.Namespace)
	mine, err := secrets.Get(t.Context(), m.secret.Name, metav1.GetOptions{})
	require.NoError(t, err)
	only := metav1.ListOptions{FieldSelector: "metadata.name=" + m.secret.Name}
	list, err := secrets.List(t.Context(), only)
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	only.ResourceVersion = list.ResourceVersion
	changes, err := secrets.Watch(t.Context(), only)
	require.NoError(t, err)
	defer changes.Stop()
	mine.Data[plan.KeyFailureCount] = []byte("1")
	_, err = secrets.Update(t.Context(), mine, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Equal(t, "1", string((<-changes.ResultChan()).Object.(*corev1.Secret).Data[plan.KeyFailureCount]))

	_, err = set.CoreV1().Secrets(other.Namespace).Get(t.Context(), other.Name, metav1.GetOptions{})
	require.ErrorContains(t, err, "forbidden")
	_, err = secrets.Get(t.Context(), "another-machine-plan", metav1.GetOptions{})
	require.ErrorContains(t, err, "forbidden")
	_, err = secrets.List(t.Context(), metav1.ListOptions{})
	require.ErrorContains(t, err, "could not find the requested resource")
	_, err = set.CoreV1().Pods(m.secret.Namespace).List(t.Context(), metav1.ListOptions{})
	require.ErrorContains(t, err, "could not find the requested resource")
	require.ErrorContains(t, secrets.Delete(t.Context(), m.secret.Name, metav1.DeleteOptions{}), "could not find the requested resource")
}

// An update that the API server refuses before it has all of it ends at once, over HTTP/2 too, where the rest of it never comes.
func TestPassThrough_refusedBeforeItsEnd(t *testing.T) {
	m := newManager(t)
	body, unsent := io.Pipe()
	t.Cleanup(func() { _ = unsent.Close() })
	go func() { _, _ = unsent.Write([]byte(`{"kind":"Secret"`)) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, m.server.URL+"/api/v1/namespaces/a/secrets/b-machine-plan", body)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer nobody's")
	resp, err := m.server.Client().Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
}

// An update that is larger than any Secret is refused for good, whether it tells its length or not: nobody sends it again and again.
func TestPassThrough_tooLarge(t *testing.T) {
	m := newManager(t)
	m.access(newAgent(1, m.token.String()))
	path := "/api/v1/namespaces/" + m.secret.Namespace + "/secrets/" + m.secret.Name
	for _, tt := range []struct {
		name    string
		size    int
		unknown bool
		want    int
	}{
		{"of 50 MB", 50 << 20, false, http.StatusRequestEntityTooLarge},
		{"of 50 MB and no length", 50 << 20, true, http.StatusRequestEntityTooLarge},
		{"as large as it may be", 2 << 20, false, http.StatusBadRequest}, // it is no JSON
		{"a byte more", 2<<20 + 1, false, http.StatusRequestEntityTooLarge},
	} {
		var body io.Reader = bytes.NewReader(make([]byte, tt.size))
		if tt.unknown {
			body = io.MultiReader(body)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, m.server.URL+path, body)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+m.config.BearerToken)
		req.Header.Set("Content-Type", "application/json")
		resp, err := m.server.Client().Transport.RoundTrip(req)
		require.NoError(t, err, tt.name)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err, tt.name)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, tt.want, resp.StatusCode, "%s: %s", tt.name, text)
	}
}

// What a client says of who it is does not reach the API server, nor does a request that is not an agent's.
func TestPassThrough_addsNothing(t *testing.T) {
	seen := make(chan *http.Request, 1)
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r }))
	t.Cleanup(api.Close)
	handler, err := agents.New(agents.Options{API: &rest.Config{Host: api.URL, BearerToken: "the-manager's", Username: "manager", Password: "x"}})
	require.NoError(t, err)
	ask := func(method, target string, header http.Header) int {
		w := httptest.NewRecorder()
		req := httptest.NewRequestWithContext(t.Context(), method, target, nil)
		req.Header = header
		handler.ServeHTTP(w, req)
		return w.Code
	}
	require.Equal(t, http.StatusOK, ask(http.MethodGet, "/api/v1/namespaces/a/secrets/b-machine-plan", http.Header{"Authorization": {"Bearer agent's"},
		"Impersonate-User": {"system:admin"}, "Impersonate-Group": {"system:masters"}, "X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"},
		"Impersonate-Extra-Scopes": {"x"}, "Cookie": {"a=b"}, "X-Forwarded-For": {"192.0.2.1"}}))
	got := <-seen
	require.Equal(t, "Bearer agent's", got.Header.Get("Authorization"))
	for name := range got.Header {
		require.Contains(t, []string{"Authorization", "User-Agent", "Accept-Encoding"}, name)
	}
	authorized := http.Header{"Authorization": {"Bearer agent's"}}
	for target, want := range map[string]int{
		"GET /api/v1/namespaces/a/secrets/b-machine-plan":                                               http.StatusUnauthorized,
		"DELETE /api/v1/namespaces/a/secrets/b-machine-plan":                                            http.StatusNotFound,
		"PATCH /api/v1/namespaces/a/secrets/b-machine-plan":                                             http.StatusNotFound,
		"GET /api/v1/namespaces/a/secrets/b-machine-plan?watch=1":                                       http.StatusNotFound,
		"GET /api/v1/namespaces/a/secrets":                                                              http.StatusNotFound,
		"GET /api/v1/namespaces/a/secrets?fieldSelector=type%3Dx":                                       http.StatusNotFound,
		"GET /api/v1/namespaces/a/secrets?fieldSelector=metadata.name%3Db-machine-plan&fieldSelector=x": http.StatusNotFound,
		"GET /api/v1/secrets?fieldSelector=metadata.name%3Db-machine-plan":                              http.StatusNotFound,
		"GET /api/v1/namespaces/a/secrets/b-machine-plan/../../../../nodes":                             http.StatusTemporaryRedirect,
		"GET /api/v1/namespaces/a/secrets/%2e%2e":                                                       http.StatusNotFound,
		"GET /api/v1/namespaces/a/secrets/b":                                                            http.StatusNotFound,
		"GET /api/v1/namespaces/a/secrets?fieldSelector=metadata.name%3Db":                              http.StatusNotFound,
		"GET /version":                  http.StatusNotFound,
		"GET /apis":                     http.StatusNotFound,
		"GET /apis/apps/v1/deployments": http.StatusNotFound,
		"POST /api/v1/namespaces/a/serviceaccounts/b/token": http.StatusNotFound,
	} {
		method, path, _ := strings.Cut(target, " ")
		header := authorized
		if want == http.StatusUnauthorized {
			header = http.Header{}
		}
		require.Equal(t, want, ask(method, path, header), target)
	}
	require.Equal(t, http.StatusUnauthorized, ask(http.MethodGet, "/api/v1/namespaces/a/secrets/b-machine-plan", http.Header{"Authorization": {"Bearer a"}, "Upgrade": {"websocket"}, "Connection": {"Upgrade"}}))
	require.Empty(t, seen)
}

func TestPublic(t *testing.T) {
	m := newManager(t)
	for path, want := range map[string]string{"/healthz": "ok", "/cacerts": string(m.authorities("")), "/cacerts?checksum=of-then": "those of then",
		"/system-agent-install.sh": "#!/bin/sh\n", "/assets/drover-agent-linux-amd64": "an agent",
		"/assets/drover-agent-linux-amd64.sha256": plan.Checksum([]byte("an agent")) + "\n"} {
		code, text := m.do(http.MethodGet, path, nil, nil)
		require.Equal(t, http.StatusOK, code, path)
		require.Equal(t, want, text, path)
	}
	for _, path := range []string{"/", "/assets/", "/assets/secret.txt", "/assets/..%2fhandler.go", "/assets/drover-agent-linux-arm64",
		"/assets/secret.txt.sha256"} {
		code, _ := m.do(http.MethodGet, path, nil, nil)
		require.Equal(t, http.StatusNotFound, code, path)
	}
	code, text := m.do(http.MethodGet, "/assets/drover-agent-linux-amd64", http.Header{"Range": {"bytes=3-"}}, nil)
	require.Equal(t, http.StatusPartialContent, code)
	require.Equal(t, "agent", text)

	_, err := agents.LoadAssets(t.TempDir())
	require.ErrorContains(t, err, "no agent found in ")
	_, err = agents.LoadAssets("/nowhere")
	require.ErrorContains(t, err, "reading the agents' directory: ")
}

// A watch outlives the times that the port gives to a request, over either protocol.
func TestPassThrough_watchLives(t *testing.T) {
	m := newManager(t)
	set := m.access(newAgent(1, m.token.String()))
	const limit = 200 * time.Millisecond
	key := m.server.TLS.Certificates[0]
	port, err := endpoint.Encrypted(t.Context(), "agents", "127.0.0.1:0", m.server.Config.Handler, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &key, nil },
		endpoint.Limits{Connections: 8, ConnectionsPerAddress: 8, ReadTimeout: limit, WriteTimeout: limit})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- port.Start(ctx) }()
	defer func() {
		cancel()
		require.NoError(t, <-ended)
	}()
	for _, protocols := range [][]string{{"http/1.1"}, nil} {
		config := rest.CopyConfig(m.config)
		config.Host, config.NextProtos = "https://"+port.Listener.Addr().String(), protocols
		direct, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		changes, err := direct.CoreV1().Secrets(m.secret.Namespace).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + m.secret.Name})
		require.NoError(t, err)
		for start, n := time.Now(), 0; time.Since(start) < 4*limit; n++ {
			secret, err := set.CoreV1().Secrets(m.secret.Namespace).Get(t.Context(), m.secret.Name, metav1.GetOptions{})
			require.NoError(t, err)
			secret.Data[plan.KeyFailureCount] = []byte(strconv.Itoa(n))
			_, err = set.CoreV1().Secrets(m.secret.Namespace).Update(t.Context(), secret, metav1.UpdateOptions{})
			require.NoError(t, err)
			_, open := <-changes.ResultChan()
			require.True(t, open, "%v after %s", protocols, time.Since(start))
		}
		changes.Stop()
	}
}
