package faults

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// strike is what happens to one request to the API server.
type strike struct {
	// before, if given, is done before the request is sent.
	before func()
	// die ends the process that asks: before the request is sent, or after it was answered.
	die dying
	// status is answered instead of asking; lost drops the answer of a request that was carried out.
	status int
	lost   bool
	// refuse so many requests in all, as a server does that is being restarted.
	refuse int
	// more requests of the same process that are struck like this one.
	more int
	// again tells that this is one of them.
	again bool
}

type dying int

const (
	lives dying = iota
	diesBefore
	diesAfter
)

var (
	errLost = errors.New("the connection was lost before the answer came")
	errDied = errors.New("the process that asked is dead")
)

// gate stands between a process of ours and the API server. It counts requests and strikes some of them.
type gate struct {
	next http.RoundTripper
	// refusing counts the requests that are still refused, of the manager and of the pod alike.
	refusing *atomic.Int32
	// killed, if given, tells that the process was killed from elsewhere.
	killed func() bool

	mu      sync.Mutex
	calls   []string
	strikes map[int]strike
	// struck are the requests that met their strike.
	struck map[int]bool
}

// begin starts to count anew.
func (g *gate) begin(strikes map[int]strike) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls, g.strikes, g.struck = nil, strikes, map[int]bool{}
}

func (g *gate) recorded() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.calls...)
}

// ended tells that the process has come to its end, and with it what would have struck its further requests.
func (g *gate) ended() {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.strikes, func(_ int, s strike) bool { return s.again })
	g.refusing.Store(0)
}

func (g *gate) hasStruck(index int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.struck[index]
}

func (g *gate) note(request *http.Request) strike {
	g.mu.Lock()
	defer g.mu.Unlock()
	index := len(g.calls)
	g.calls = append(g.calls, describe(request))
	s, found := g.strikes[index]
	if !found {
		return s
	}
	g.struck[index] = true
	if _, taken := g.strikes[index+1]; s.more > 0 && !taken {
		next := s
		next.more--
		next.before, next.again = nil, true
		g.strikes[index+1] = next
	}
	return s
}

// describe names a request without what differs from run to run.
func describe(request *http.Request) string {
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	for i := range parts {
		if i > 0 && parts[i-1] == "namespaces" {
			parts[i] = "*"
		}
	}
	return request.Method + " " + strings.Join(parts, "/")
}

// RoundTrip implements http.RoundTripper. Its error is errDied when the process that asks has to die.
func (g *gate) RoundTrip(request *http.Request) (*http.Response, error) {
	if g.killed != nil && g.killed() {
		return nil, errDied
	}
	s := g.note(request)
	if s.before != nil {
		s.before()
	}
	if s.die == diesBefore {
		return nil, errDied
	}
	if s.refuse > 0 {
		g.refusing.Store(int32(s.refuse))
	}
	if g.refusing.Load() > 0 {
		g.refusing.Add(-1)
		return nil, fmt.Errorf("dialling: %w", syscall.ECONNREFUSED)
	}
	if s.status != 0 {
		return refusal(request, s.status), nil
	}
	response, err := g.next.RoundTrip(request)
	if err != nil || s.die != diesAfter && !s.lost {
		return response, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if s.die == diesAfter {
		return nil, errDied
	}
	return nil, errLost
}

// refusal is the API server's own way to refuse.
func refusal(request *http.Request, status int) *http.Response {
	reason := map[int]string{http.StatusConflict: "Conflict", http.StatusServiceUnavailable: "ServiceUnavailable"}[status]
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"struck","reason":%q,"code":%d}`, reason, status)
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewBufferString(body)),
	}
}

// mortal is the way of one process through a gate: when it has died, nothing of it comes through any more, whatever of it is
// still run.
type mortal struct {
	*gate
	dead atomic.Bool
	// end ends the process.
	end func()
}

// RoundTrip implements http.RoundTripper.
func (m *mortal) RoundTrip(request *http.Request) (*http.Response, error) {
	if m.dead.Load() {
		m.end()
		return nil, errDied
	}
	response, err := m.gate.RoundTrip(request)
	if errors.Is(err, errDied) {
		m.dead.Store(true)
		m.end()
	}
	return response, err
}
