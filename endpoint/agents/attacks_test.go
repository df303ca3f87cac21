package agents_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/admission"
	"github.com/drover-project/drover/api/connect"
	"github.com/drover-project/drover/api/plan"
	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/testkit"
)

// asked counts what the endpoint itself asks of the API server.
type asked struct{ reads, tokens atomic.Int64 }

// count has the endpoint's requests counted.
func (m *manager) count() *asked {
	m.Helper()
	n := &asked{}
	m.Client = interceptor.NewClient(testkit.Client(m.T, clientgoscheme.Scheme), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			n.reads.Add(1)
			return c.Get(ctx, key, obj, opts...)
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, obj, subObj client.Object, opts ...client.SubResourceCreateOption) error {
			n.tokens.Add(1)
			return c.SubResource(sub).Create(ctx, obj, subObj, opts...)
		}})
	m.serve()
	return n
}

// TestAttacks is what a server's root, and a stranger who reaches the port, try against the endpoint, with the API server and the policy that it has in a
// management cluster. Each is refused; an agent that is known, behind the same address, notices nothing.
func TestAttacks(t *testing.T) {
	m := newManager(t)
	policies := admission.Policies(nil)
	_, err := apply.Applier{Client: m, Reader: m, Owner: "test"}.All(t.Context(), policies...)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, obj := range policies {
			_ = m.Delete(context.Background(), obj)
		}
	})
	other, othersToken := m.machine("other-machine-plan")
	m.access(newAgent(7, othersToken.String()))
	first := newAgent(1, m.token.String())
	secrets := m.access(first).CoreV1().Secrets(m.secret.Namespace)
	at := client.ObjectKeyFromObject(m.secret)
	known := agent{key: first.key, at: at, ticket: m.answer.Ticket}
	bearer := m.config.BearerToken
	testkit.Eventually(t, time.Minute, func() error { // an API server learns of policies by watch
		mine := testkit.ExpectExists(t, m, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name}})
		mine.Labels = map[string]string{"a": "b"}
		if _, err := secrets.Update(t.Context(), mine, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}); err == nil {
			return context.DeadlineExceeded
		}
		return nil
	})

	through := func(method, path string, more http.Header, body []byte) int {
		header := http.Header{"Authorization": {"Bearer " + bearer}, "Content-Type": {"application/json"}}
		for name := range more {
			header[name] = more[name]
		}
		code, _ := m.do(method, path, header, body)
		return code
	}
	write := func(change func(*corev1.Secret)) int {
		mine := testkit.ExpectExists(t, m, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name}})
		mine.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
		change(mine)
		body, err := json.Marshal(mine)
		require.NoError(t, err)
		return through(http.MethodPut, "/api/v1/namespaces/"+at.Namespace+"/secrets/"+at.Name, nil, body)
	}
	registers := func(a agent) func() int {
		return func() int { code, _ := m.register(a); return code }
	}
	othersPath := "/api/v1/namespaces/" + other.Namespace + "/secrets/" + other.Name
	const unauthorized, forbidden, invalid = http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity
	for _, attack := range []struct {
		name string
		try  func() int
		want int
	}{
		{"another machine's bootstrap token", registers(newAgent(1, othersToken.String())), unauthorized},
		{"the token again, with another key", registers(newAgent(2, m.token.String())), unauthorized},
		{"a guessed token", registers(newAgent(2, connect.NewToken(at.Namespace, at.Name).String())), unauthorized},
		{"a ticket with another key", registers(agent{key: newAgent(2, "").key, at: at, ticket: m.answer.Ticket}), unauthorized},
		{"another's plan Secret by one's own key", registers(agent{key: first.key, at: client.ObjectKeyFromObject(other)}), unauthorized},
		{"a burned token", func() int {
			m.change(func(data map[string][]byte) { delete(data, plan.KeyTokenHash) })
			return registers(newAgent(2, m.token.String()))()
		}, unauthorized},
		{"reads another's plan", func() int { return through(http.MethodGet, othersPath, nil, nil) }, forbidden},
		{"watches another's plan", func() int {
			return through(http.MethodGet, "/api/v1/namespaces/"+other.Namespace+"/secrets?watch=1&fieldSelector=metadata.name%3D"+other.Name, nil, nil)
		}, forbidden},
		{"writes another's plan", func() int {
			return through(http.MethodPut, othersPath, nil, []byte(`{"apiVersion":"v1","kind":"Secret"}`))
		}, forbidden},
		{"speaks for another", func() int {
			return through(http.MethodGet, othersPath, http.Header{"Impersonate-User": {"system:admin"}, "Impersonate-Group": {"system:masters"},
				"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}}, nil)
		}, forbidden},
		{"lists all", func() int { return through(http.MethodGet, "/api/v1/namespaces/"+at.Namespace+"/secrets", nil, nil) }, http.StatusNotFound},
		{"asks for a token of its own", func() int {
			return through(http.MethodPost, "/api/v1/namespaces/"+at.Namespace+"/serviceaccounts/"+at.Name+"/token", nil, []byte(`{}`))
		}, http.StatusNotFound},
		{"writes its plan", func() int { return write(func(s *corev1.Secret) { s.Data[plan.KeyPlan] = []byte("{}") }) }, invalid},
		{"gives itself another key", func() int { return write(func(s *corev1.Secret) { s.Data[plan.KeyAgentPublicKey] = []byte("x") }) }, invalid},
		{"has a plan succeed that nobody ordered", func() int {
			return write(func(s *corev1.Secret) { s.Data[plan.KeyState] = []byte(plan.StateSucceeded) })
		}, invalid},
		{"takes another owner", func() int {
			return write(func(s *corev1.Secret) { s.OwnerReferences[0].UID = "another" })
		}, invalid},
	} {
		require.Equal(t, attack.want, attack.try(), attack.name)
	}
	require.Contains(t, <-m.events.Events, "Warning TokenReplayed")
	for len(m.events.Events) > 0 {
		<-m.events.Events
	}
	m.flooded(known)
}

// many registers so often, in so many streams at once, and counts the answers by code and by text.
func (m *manager) many(all, at int, who func() agent, meanwhile func()) (codes map[int]float64, texts map[string]int) {
	m.Helper()
	codes, texts = map[int]float64{}, map[string]int{}
	var mutex sync.Mutex
	var senders sync.WaitGroup
	direct := *m
	direct.direct = true
	for range at {
		senders.Go(func() {
			for range all / at {
				code, text := direct.register(who())
				mutex.Lock()
				codes[code]++
				texts[text]++
				mutex.Unlock()
			}
		})
	}
	meanwhile()
	senders.Wait()
	return codes, texts
}

// flooded has somebody send 10,000 guesses from the address of an agent that is known.
func (m *manager) flooded(known agent) {
	m.Helper()
	m.skew += time.Minute
	n := m.count()
	m.access(known)
	const all, at = 10_000, 50
	before := map[int]float64{}
	for _, code := range []int{http.StatusUnauthorized, http.StatusTooManyRequests} {
		before[code] = counted(m.T, strconv.Itoa(code))
	}
	readsBefore := n.reads.Load()
	guess := func() agent { return newAgent(9, connect.NewToken(m.secret.Namespace, m.secret.Name).String()) }
	begin := time.Now()
	count, _ := m.many(all, at, guess, func() {
		for range 5 {
			m.access(known)
		}
	})
	most := 20 + 16*(1+time.Since(begin).Seconds()/2)
	require.LessOrEqual(m, count[http.StatusUnauthorized], most, "20 at once, and then one every two seconds, or 16 at the same moment")
	require.LessOrEqual(m, float64(n.reads.Load()-readsBefore), count[http.StatusUnauthorized]+2*5, "nobody else costs the API server a request")
	require.InDelta(m, all, count[http.StatusUnauthorized]+count[http.StatusTooManyRequests], 0)
	for code, n := range count {
		require.InDelta(m, n, counted(m.T, strconv.Itoa(code))-before[code], 0)
	}
	require.Contains(m, <-m.events.Events, "Warning RegistrationsRefused too many registrations from 127.0.0.1 failed")
	require.Less(m, len(m.events.Events), 5)

	code, _ := m.register(guess())
	require.Equal(m, http.StatusTooManyRequests, code)
	reads := n.reads.Load()
	restarted := *m
	restarted.serve() // no replica has to remember anybody
	restarted.access(known)
	require.Greater(m, n.reads.Load(), reads)
	m.skew += time.Minute
	_, token := m.machine("late")
	m.access(newAgent(3, token.String()))
}

// A renewal that is repeated costs one token, in however many streams it comes, and another when it has some age.
func TestRegister_repeated(t *testing.T) {
	m := newManager(t)
	n := m.count()
	a := newAgent(1, m.token.String())
	m.access(a)
	require.EqualValues(t, 1, n.tokens.Load())
	a = agent{key: a.key, at: client.ObjectKeyFromObject(m.secret), ticket: m.answer.Ticket}
	m.skew += time.Minute
	_, different := m.many(2000, 100, func() agent { return a }, func() {})
	require.Len(t, different, 1)
	require.EqualValues(t, 2, n.tokens.Load())
	m.skew += time.Minute
	m.access(a)
	require.EqualValues(t, 3, n.tokens.Load())
}
