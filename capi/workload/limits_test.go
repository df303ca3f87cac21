package workload

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// answers is a server that answers each request so.
type answers func(*http.Request) *http.Response

func (a answers) RoundTrip(request *http.Request) (*http.Response, error) { return a(request), nil }

func answer(status int, body string, header ...string) *http.Response {
	response := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i+1 < len(header); i += 2 {
		response.Header.Set(header[i], header[i+1])
	}
	return response
}

func read(t *testing.T, l *limited, path string) (string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://h"+path, nil)
	require.NoError(t, err)
	response, err := l.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer func() { require.NoError(t, response.Body.Close()) }()
	require.Empty(t, response.Header.Get("Retry-After"), "client-go would sleep for as long as the server says")
	content, err := io.ReadAll(response.Body)
	return string(content), err
}

func TestLimited_answers(t *testing.T) {
	for name, tt := range map[string]struct {
		response *http.Response
		err      string
	}{
		"JSON":                {answer(200, `{"a":1}`), ""},
		"an error":            {answer(404, `{"kind":"Status"}`), ""},
		"come again in a day": {answer(429, `{"kind":"Status"}`, "Retry-After", "86400"), ""},
		"plain text":          {answer(200, "ok", "Content-Type", "text/plain; charset=utf-8"), ""},
		"a redirect":          {answer(307, "", "Location", "https://elsewhere"), "redirect"},
		"another protocol":    {answer(101, ""), "protocol upgrade"},
		"packed":              {answer(200, "", "Content-Encoding", "gzip"), "unexpected compression"},
		"protobuf":            {answer(200, "", "Content-Type", "application/vnd.kubernetes.protobuf"), "not JSON"},
		"YAML":                {answer(200, "", "Content-Type", "application/yaml"), "not JSON"},
		"CBOR":                {answer(200, "", "Content-Type", "application/cbor"), "not JSON"},
		"long":                {answer(200, strings.Repeat("x", 101)), "exceeds 100 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			var ended []error
			l := &limited{tenant: newLimits().tenant("a"), answer: 100, time: time.Minute, ended: func(err error) { ended = append(ended, err) },
				next: answers(func(*http.Request) *http.Response { return tt.response })}
			content, err := read(t, l, "/api")
			require.Len(t, ended, 1)
			if tt.err == "" {
				require.NoError(t, err)
				require.NotEmpty(t, content)
				require.NoError(t, ended[0])
				return
			}
			require.ErrorContains(t, err, tt.err)
			require.ErrorIs(t, ended[0], errAnswer)
		})
	}
}

// A list that always has one more page ends; Cluster API would gather it.
func TestLimited_pagesWithoutEnd(t *testing.T) {
	limitedTo := func(page string) *limited {
		tenant := newLimits().tenant("a")
		return &limited{tenant: tenant, pages: tenant.pages, answer: maxAnswer, time: time.Minute, next: answers(func(*http.Request) *http.Response { return answer(200, page) })}
	}
	l := limitedTo(strings.Repeat("x", 1<<20))
	list := func(path string, most int) (pages int) {
		next := ""
		for pages = 0; pages < most; pages++ {
			if _, err := read(t, l, path+next); err != nil {
				require.ErrorContains(t, err, "too many pages")
				return pages
			}
			next = fmt.Sprintf("&continue=%d", pages)
		}
		return pages
	}
	require.Equal(t, 10, list("/api/v1/pods?limit=100&fieldSelector=a", 10))
	require.Equal(t, 10, list("/api/v1/pods?limit=100&fieldSelector=a", 10), "a list that begins anew counts from nothing")
	require.Equal(t, 7, list("/api/v1/pods?limit=100&fieldSelector=b", 100), "others of the namespace being read count")
	_, err := read(t, l, "/api/v1/pods/x")
	require.NoError(t, err, "what is no list is not held up")

	l = limitedTo("{}")
	require.Equal(t, 1025, list("/api/v1/pods?limit=100", 5000), "pages of nothing end too")

	target := func(text string) *http.Request {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://h"+text, nil)
		require.NoError(t, err)
		return request
	}
	var old pages
	began := time.Now()
	old.add(target("/a?limit=1").URL, maxPaged+1, began)
	require.Error(t, old.begin(target("/b?limit=1&continue=x").URL, began.Add(time.Second)))
	require.NoError(t, old.begin(target("/b?limit=1&continue=x").URL, began.Add(time.Minute)), "one that nobody reads any more does not count")
}

func TestScanner(t *testing.T) {
	node := `{"metadata":{"name":"n","labels":{"a":"[{[{"}},"status":{"conditions":[{"type":"Ready","status":"True"}],"note":"` + strings.Repeat("x", 200) + `\"{["}}`
	for name, tt := range map[string]struct {
		answer string
		limit  int
		stream bool
		err    string
	}{
		"a list":               {answer: `{"items":[` + strings.Repeat(node+",", 3000) + node + `]}`, limit: 4 << 20},
		"few nothings":         {answer: `[` + strings.Repeat("{},", 999) + `{}]`, limit: 1 << 20},
		"many nothings":        {answer: `[` + strings.Repeat("{},", 1000) + `{}]`, limit: 1 << 20, err: "too many objects"},
		"nothings in nothings": {answer: strings.Repeat("[[],[", 100) + strings.Repeat("[],", 2000), limit: 1 << 20, err: "too many objects"},
		"few small fields":     {answer: `{` + strings.Repeat(`"a":{},`, 1000) + `}`, limit: 1 << 20},
		"many small fields":    {answer: `{` + strings.Repeat(`"a":{},`, 5000) + `}`, limit: 1 << 20, err: "too many fields"},
		"many fields":          {answer: `{` + strings.Repeat(`"abcde":"ef",`, 5000) + `}`, limit: 1 << 20},
		"managed fields":       {answer: `{` + strings.Repeat(`"f:status":{"f:conditions":{".":{},"k:{\"type\":\"Ready\"}":{".":{},"f:status":{},"f:type":{}}}},`, 2000) + `}`, limit: 1 << 20},
		"a small number":       {answer: `{"cpu":"1e-2000000000"}`, limit: 100, err: "a number is too long"},
		"a bare one":           {answer: `{"cpu":-.5E-2000000000 }`, limit: 100, err: "a number is too long"},
		"before a line's end":  {answer: "{\"cpu\":1e-2000000000\r\n}", limit: 100, err: "a number is too long"},
		"between spaces":       {answer: `["\u00a0", "  1e-2000000000 "]`, limit: 100, err: "a number is too long"},
		"a great, long number": {answer: `["12345678901234567890e2000000000"]`, limit: 100, err: "a number is too long"},
		"one that turns over":  {answer: `["1e200000000000000000"]`, limit: 100, err: "a number is too long"},
		"below other labels":   {answer: `{"labels":{"a":{"b":"1e-2000"}},"capacity":{"cpu":"1e-2000"}}`, limit: 100, err: "a number is too long"},
		"labels":               {answer: `{"metadata":{"labels":{"a":"12e-2026","b":"7e1234567890"},"annotations":{"c":"1e-2000000000"}},"capacity":{"cpu":"1e-9"}}`, limit: 1000},
		"a list of labels":     {answer: `{"labels":["1e-2000"]}`, limit: 100, err: "a number is too long"},
		"labels in a list":     {answer: `{"items":["labels",{"capacity":{"cpu":"1e-2000"}}]}`, limit: 100, err: "a number is too long"},
		"a text before":        {answer: `{"a":"labels","b":{"c":"1e-2000"}}`, limit: 100, err: "a number is too long"},
		"many digits":          {answer: `["0.` + strings.Repeat("0", 1000) + `1"]`, limit: 2000, err: "a number is too long"},
		"usual numbers":        {answer: `{"cpu":"1920m","memory":"16393176Ki","n":1e-9,"a":[110,"-1.5e-12","1e+20",12345678901234567890.5]}`, limit: 1000},
		"a commit":             {answer: `{"a":"12e4567890","b":"2026-11-26","c":"198.18.0.1","d":"1e-x-20000","e":"v1e-20000","uid":"1234567e-1234-4000-8000-123456789012","f":"1e-20000 days"}`, limit: 1000},
		"too long":             {answer: strings.Repeat("x", 101), limit: 100, err: "exceeds 100 bytes"},
		"as long as may be":    {answer: strings.Repeat("x", 100), limit: 100},
		"too deep":             {answer: strings.Repeat("[", 257), limit: 1 << 20, err: "nested too deep"},
		"events":               {answer: strings.Repeat(`{"object":{"a":"`+strings.Repeat("x", 80)+`"}}`+"\n", 100), limit: 120, stream: true},
		"one long event":       {answer: `{"object":{"a":"` + strings.Repeat("x", 120), limit: 120, stream: true, err: "exceeds 120 bytes"},
		"more ends than begin": {answer: "]]]}}}[{}]", limit: 100},
	} {
		t.Run(name, func(t *testing.T) {
			for _, piece := range []int{1, 7, len(tt.answer)} {
				s := scanner{limit: tt.limit, stream: tt.stream}
				var err error
				for rest := []byte(tt.answer); len(rest) > 0 && err == nil; rest = rest[min(piece, len(rest)):] {
					err = s.read(rest[:min(piece, len(rest))])
				}
				if tt.err == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.err)
					require.ErrorIs(t, err, errAnswer)
				}
			}
		})
	}
}

// Events of a watch are read as fast as the token bucket of their namespace allows, and other namespaces are not affected.
func TestLimited_events(t *testing.T) {
	all := newLimits()
	watch := func(namespace, body string) error {
		l := &limited{tenant: all.tenant(namespace), next: answers(func(*http.Request) *http.Response { return answer(200, body) })}
		_, err := read(t, l, "/api/v1/nodes?watch=true")
		return err
	}
	event := `{"type":"MODIFIED","object":{"kind":"Node"}}` + "\n"
	require.NoError(t, watch("a", strings.Repeat(event, 1000)))
	require.InDelta(t, eventsBurst-1000, all.events.Tokens("a", time.Now()), 500)
	require.InDelta(t, eventsBurst, all.events.Tokens("b", time.Now()), 1)
	require.NoError(t, all.events.Wait(t.Context(), "a", int(all.events.Tokens("a", time.Now()))))
	begin := time.Now()
	require.NoError(t, watch("a", strings.Repeat(event, 10)))
	require.Greater(t, time.Since(begin), 9*time.Second/eventsPerSecond, "the bucket is empty")
	body := &boundedBody{ctx: t.Context(), tenant: all.tenant("b"), scan: scanner{limit: maxEvent, stream: true},
		body: io.NopCloser(strings.NewReader(strings.Repeat("{}", eventsBurst+1)))}
	_, err := body.Read(make([]byte, 32<<10))
	require.ErrorIs(t, err, errAnswer)
}

// What is not kept is logged by client-go, and a tenant's Node is not for the manager's log.
func TestKeep_forgetsWhatItRefuses(t *testing.T) {
	all := newLimits()
	ctx, cancel := context.WithCancelCause(t.Context())
	n := &connection{ctx: ctx, cancel: cancel, wake: func() {}, holding: all.tenant("a").holding()}
	big := node("u", "acme://1")
	big.Annotations = map[string]string{"a": strings.Repeat("x", heldByCluster)}
	_, err := n.keep(big)
	require.ErrorIs(t, err, errHeld)
	require.Equal(t, &corev1.Node{}, big)
	require.ErrorIs(t, n.failure(), errHeld)
}

func TestHolding(t *testing.T) {
	all := newLimits()
	first := all.tenant("a").holding()
	require.NoError(t, first.hold("n", heldByCluster-10))
	require.NoError(t, first.hold("n", heldByCluster-5), "the same object counts once")
	require.ErrorIs(t, first.hold("m", 10), errHeld)
	for range 2 {
		require.ErrorIs(t, all.tenant("b").holding().hold("n", heldByCluster+1), errHeld)
	}
	second := all.tenant("a").holding()
	require.NoError(t, second.hold("n", heldByCluster))
	third := all.tenant("a").holding()
	require.ErrorIs(t, third.hold("n", heldByCluster), errHeld, "the namespace has no more")
	require.NoError(t, all.tenant("b").holding().hold("n", heldByCluster), "another has")
	first.end()
	require.ErrorIs(t, first.hold("late", 1), errHeld)
	require.NoError(t, third.hold("n", heldByCluster))
}

// A wait of zero takes a free permit. A full semaphore does not delay another namespace.
func TestTenant_acquire(t *testing.T) {
	all := newLimits()
	a, b := all.tenant("a"), all.tenant("b")
	for range maxConnects {
		_, ok := a.acquire(t.Context(), a.connects, 0)
		require.True(t, ok)
	}
	_, ok := all.tenant("a").acquire(t.Context(), all.connects, time.Millisecond)
	require.False(t, ok)
	_, ok = b.acquire(t.Context(), b.connects, 0)
	require.True(t, ok)
	_, ok = a.acquire(t.Context(), a.lists, 0)
	require.True(t, ok, "each kind of call has its own semaphore")
}

func TestRetryAfter(t *testing.T) {
	for failures, want := range map[int]time.Duration{0: 5 * time.Second, 1: 5 * time.Second, 2: 10 * time.Second, 5: 80 * time.Second, 7: 5 * time.Minute, 1 << 40: 5 * time.Minute} {
		require.Equal(t, want, retryAfter(failures))
	}
}

func node(machine, provider string) *corev1.Node {
	n := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: provider}}
	if machine != "" {
		n.Labels = map[string]string{rkev1.NodeMachineLabel: machine}
	}
	return n
}

func TestNodeWatcher_tellsOfProviderIDsThatAreNew(t *testing.T) {
	waiting := node("u", "")
	waiting.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Effect: corev1.TaintEffectNoSchedule}}
	for name, tt := range map[string]struct {
		before, after any
		want          []types.UID
	}{
		"joins with its ID":        {nil, node("u", "acme://1"), []types.UID{"u"}},
		"joins without":            {nil, node("u", ""), []types.UID{"u"}},
		"waits for its cloud":      {nil, waiting, nil},
		"gets its ID":              {node("u", ""), node("u", "acme://1"), []types.UID{"u"}},
		"gets its label":           {node("", "acme://1"), node("u", "acme://1"), []types.UID{"u"}},
		"of another machine now":   {node("u", "acme://1"), node("v", "acme://1"), []types.UID{"v"}},
		"stays the same":           {node("u", "acme://1"), node("u", "acme://1"), nil},
		"nobody's, so anybody's":   {node("", ""), node("", "acme://1"), []types.UID{""}},
		"loses its label":          {node("u", "acme://1"), node("", "acme://1"), []types.UID{""}},
		"not a Node":               {nil, &corev1.Pod{}, nil},
		"a tombstone was the last": {"gone", node("u", "acme://1"), []types.UID{"u"}},
		"nothing at all":           {nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []types.UID
			w := &nodeWatcher{cluster: client.ObjectKey{Namespace: "a", Name: "c1"}, clusters: &Clusters{}}
			w.clusters.OnNode(func(cluster client.ObjectKey, machine types.UID) {
				require.Equal(t, client.ObjectKey{Namespace: "a", Name: "c1"}, cluster)
				got = append(got, machine)
			})
			w.notify(tt.before, tt.after)
			require.Equal(t, tt.want, got)
			require.Equal(t, "drover-nodes", w.Name())
			require.IsType(t, &corev1.Node{}, w.Object())
		})
	}
}

// FuzzScanner_numbers: what is let through is read as a quantity before long, as a text and as a number.
func FuzzScanner_numbers(f *testing.F) {
	for _, seed := range []string{"1e-2000000000", "12345678901234567890e2000000000", "1e2000000000", " .5E-99999", "1Ki", "-1e-999", "0.0001m", "+1E+1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4<<10 || strings.ContainsAny(text, "\"\\") {
			return
		}
		for _, answer := range []string{`{"a":"` + text + `"}`, `{"a":` + text + `}`} {
			if s := (scanner{limit: 8 << 10}); s.read([]byte(answer)) == nil {
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = resource.ParseQuantity(strings.TrimSpace(text))
				}()
				select {
				case <-done:
				case <-time.After(10 * time.Second):
					t.Fatalf("%q takes too long", text)
				}
			}
		}
	})
}
