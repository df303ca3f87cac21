package rest

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/drover-project/drover/e2e/cloud/account"
)

// toldLimit is the real API's limit, told when none is enforced.
const toldLimit = 5000

// limiter counts requests per token in windows of an hour.
type limiter struct {
	enforced int
	mu       sync.Mutex
	windows  map[string]*window
}

type window struct {
	used int
	ends time.Time
}

// take counts one request, tells the state in the headers and reports whether
// the request is within the limit.
func (l *limiter) take(token string, header http.Header) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	w := l.windows[token]
	if w == nil || now.After(w.ends) {
		w = &window{ends: now.Add(time.Hour)}
		l.windows[token] = w
	}
	w.used++
	limit, least := l.enforced, 0
	if limit == 0 {
		limit, least = toldLimit, 1
	}
	header.Set("Ratelimit-Limit", strconv.Itoa(limit))
	header.Set("Ratelimit-Remaining", strconv.Itoa(max(least, limit-w.used)))
	header.Set("Ratelimit-Reset", strconv.FormatInt(w.ends.Unix(), 10))
	within := l.enforced == 0 || w.used <= limit
	if !within {
		header.Set("Retry-After", strconv.Itoa(int(time.Until(w.ends).Seconds())+1))
	}
	return within
}

func tooManyRequests() *account.Error {
	return &account.Error{Status: http.StatusTooManyRequests, ID: "too_many_requests", Message: "API Rate limit exceeded."}
}
