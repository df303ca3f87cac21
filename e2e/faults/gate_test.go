package faults

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
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
}

type dying int

const (
	lives dying = iota
	diesBefore
	diesAfter
)

var errLost = errors.New("the connection was lost before the answer came")

// gate stands between a process of ours and the API server. It counts requests and strikes some of them. A process that is
// struck dead ends there: its goroutine goes, as with SIGKILL nothing of it is run any more but what closes files.
type gate struct {
	next http.RoundTripper

	mu      sync.Mutex
	calls   []string
	strikes map[int]strike
	// killed, if given, tells that the process was killed from elsewhere.
	killed func() bool
}

// begin starts to count anew.
func (g *gate) begin(strikes map[int]strike) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls, g.strikes = nil, strikes
}

func (g *gate) recorded() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.calls...)
}

func (g *gate) note(request *http.Request) strike {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, describe(request))
	return g.strikes[len(g.calls)-1]
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

// RoundTrip implements http.RoundTripper.
func (g *gate) RoundTrip(request *http.Request) (*http.Response, error) {
	if g.killed != nil && g.killed() {
		runtime.Goexit()
	}
	s := g.note(request)
	if s.before != nil {
		s.before()
	}
	if s.die == diesBefore {
		runtime.Goexit()
	}
	if s.status == http.StatusConflict && request.Method != http.MethodPut && request.Method != http.MethodPatch {
		s.status = http.StatusServiceUnavailable
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
		runtime.Goexit()
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
