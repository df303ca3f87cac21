package operation

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner/operation/plugin"
	"github.com/drover-project/drover/state"
)

const (
	// throttledAfter is how long the cloud must limit a driver's requests before the Job reports
	// it: shorter limits are usual.
	throttledAfter = 10 * time.Second
	// maxThrottledLine bounds the line of the driver's output that the report contains.
	maxThrottledLine = 300
)

// throttling finds in the log that the cloud limits the driver's requests. Some SDKs repeat such a
// request until the Job's deadline: the driver returns no error, but the SDK logs each answer.
type throttling struct {
	// classify returns the class of a line; nil for none.
	classify func(line string) string
	// after is throttledAfter, and every is saveInterval, except in tests.
	after, every time.Duration

	mutex sync.Mutex
	since time.Time
	line  string
}

// Write implements io.Writer. It takes one line without secrets at a time.
func (t *throttling) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if text == "" || t.classify == nil {
		return len(line), nil
	}
	throttled := t.classify(text) == rkev1.ClassThrottled
	t.mutex.Lock()
	defer t.mutex.Unlock()
	switch {
	case throttled && t.since.IsZero():
		t.since, t.line = time.Now(), clip(text, maxThrottledLine)
	case throttled, strings.Contains(strings.ToLower(text), "retry"):
		// A line about the next try, such as one that names the header Retry-After, is not progress.
	default:
		t.since, t.line = time.Time{}, ""
	}
	return len(line), nil
}

// report returns nil while the driver makes progress.
func (t *throttling) report() *state.Progress {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.since.IsZero() || time.Since(t.since) < t.after {
		return nil
	}
	return &state.Progress{ThrottledSince: t.since.UTC().Truncate(time.Second), Throttled: t.line}
}

// end forgets the driver's log lines, because its call has returned.
func (t *throttling) end() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.since, t.line = time.Time{}, ""
}

// classify returns the class of a text from the driver. The machine's own names may contain the
// words that tell classes apart; shorter names are parts of other words.
func (s *session) classify(text string) string {
	const minName = 8
	for _, name := range []string{s.request.InstanceName, s.request.Machine.Name} {
		if len(name) >= minName {
			text = strings.ReplaceAll(text, name, "it")
		}
	}
	return s.profile.Classify(text)
}

// do runs a call of the driver. Meanwhile it reports whether the cloud limits the driver's requests.
func (s *session) do(ctx context.Context, request plugin.Request) error {
	running := s.driver
	return s.watchCall(ctx, func() error { return running.Do(ctx, request) })
}

func (s *session) watchCall(ctx context.Context, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			s.endThrottling(ctx)
			return err
		case <-ticker.C:
			s.reportThrottling(ctx)
		}
	}
}

// reportThrottling saves in the state that the cloud limits the driver's requests, or that it no
// longer does, at most once per throttling.every. The manager watches the state.
func (s *session) reportThrottling(ctx context.Context) {
	if time.Since(s.reported) < s.log.throttling.every {
		return
	}
	progress := s.log.throttling.report()
	if _, reports := s.state.Data[state.ProgressKey]; reports == (progress != nil) {
		return
	}
	s.saveThrottling(ctx, progress)
}

// endThrottling removes the report after a call of the driver.
func (s *session) endThrottling(ctx context.Context) {
	s.log.throttling.end()
	if _, reports := s.state.Data[state.ProgressKey]; reports {
		s.saveThrottling(ctx, nil)
	}
}

func (s *session) saveThrottling(ctx context.Context, progress *state.Progress) {
	var document []byte
	if progress != nil {
		progress.Operation, progress.Attempt = s.request.Operation, s.request.Attempt
		document, _ = json.Marshal(progress) // texts, numbers and times can be encoded
	}
	if err := s.state.Save(ctx, map[string][]byte{state.ProgressKey: document}); err != nil {
		s.log.printf("storing that the cloud limits the request rate: %v", err)
	}
	s.reported = time.Now()
}
