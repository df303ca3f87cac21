package operation

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/state"
)

// TestThrottling: which lines of a driver's output report that the cloud limits its requests, and which end the report.
func TestThrottling(t *testing.T) {
	// As linodego logs them (retries.go).
	const limited = "2026/11/28 06:00:01 [INFO] Received error Too many requests - Retrying"
	const header = "2026/11/28 06:00:01 [INFO] Respecting Retry-After Header of 30 (30s) (max 30s)"
	for name, c := range map[string]struct {
		driver, lines string
		report        string
	}{
		"nothing yet":                  {driver: "linode"},
		"a request that is limited":    {driver: "linode", lines: limited, report: limited},
		"with the time of the next":    {driver: "linode", lines: limited + "\n" + header, report: limited},
		"again and again":              {driver: "linode", lines: limited + "\n" + header + "\n\n[INFO] Received error Too many requests, again - Retrying", report: limited},
		"after other lines":            {driver: "linode", lines: "Creating a Linode\n" + limited, report: limited},
		"progress":                     {driver: "linode", lines: limited + "\n" + header + "\nWaiting for the Linode to boot"},
		"a busy cloud":                 {driver: "linode", lines: "[INFO] Received error Linode busy. - Retrying"},
		"the words of another cloud":   {driver: "amazonec2", lines: "RequestLimitExceeded: Request limit exceeded.", report: "RequestLimitExceeded: Request limit exceeded."},
		"an unknown driver":            {driver: "acme", lines: "error 429: slow down", report: "error 429: slow down"},
		"the machine's name":           {driver: "acme", lines: "creating throttled-pool-1"},
		"a secret in the line":         {driver: "acme", lines: "throttled: token MARKER-secret", report: "throttled: token [redacted]"},
		"a long line":                  {driver: "acme", lines: "throttled " + strings.Repeat("x", 1000), report: "throttled " + strings.Repeat("x", maxThrottledLine-10)},
		"a line of our own":            {driver: "acme", lines: "throttled\nasking the driver to create the server (Create)"},
		"a line without an end so far": {driver: "acme", lines: "thrott"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := underWay(t, c.driver)
			s.request.InstanceName = "throttled-pool-1"
			s.redactor.Add("MARKER-secret")
			s.log.throttling.after = 0
			text := c.lines
			if name != "a line without an end so far" {
				text += "\n"
			}
			_, err := s.log.Write([]byte(text))
			require.NoError(t, err)
			report := s.log.throttling.report()
			if c.report == "" {
				require.Nil(t, report)
				return
			}
			require.Equal(t, c.report, report.Throttled)
			require.WithinDuration(t, time.Now(), report.ThrottledSince, time.Minute)
			s.log.throttling.after = time.Hour
			require.Nil(t, s.log.throttling.report(), "a short limit is not reported")
		})
	}
}

// TestWatchCall: while a call of the driver is limited, the state says so. It no longer does when the driver goes on or returns.
func TestWatchCall(t *testing.T) {
	s, client := underWay(t, "linode")
	s.log.throttling.after, s.log.throttling.every = 0, 0
	// The calls run beside the test, so that they must not end it.
	progress := func() (p state.Progress) {
		if document := kept(t, client)[state.ProgressKey]; document != nil {
			assert.NoError(t, json.Unmarshal(document, &p))
		}
		return p
	}
	failed := errors.New("it failed")
	for name, end := range map[string]func(){
		"it returns": func() {},
		"it goes on": func() {
			s.log.printf("Waiting for the Linode to boot")
			assert.Eventually(t, func() bool { return progress().Throttled == "" }, 10*time.Second, 10*time.Millisecond)
		},
	} {
		err := s.watchCall(t.Context(), func() error {
			s.log.printf("[INFO] Received error Too many requests - Retrying")
			assert.Eventually(t, func() bool { return progress().Throttled != "" }, 10*time.Second, 10*time.Millisecond, name)
			p := progress()
			assert.Equal(t, state.Progress{Operation: state.Create, Attempt: 3, ThrottledSince: p.ThrottledSince,
				Throttled: "[INFO] Received error Too many requests - Retrying"}, p)
			end()
			return failed
		})
		require.ErrorIs(t, err, failed, name)
		require.NotContains(t, kept(t, client), state.ProgressKey, name)
		writes := s.state.Writes
		require.NoError(t, s.watchCall(context.Background(), func() error { return nil }))
		require.Equal(t, writes, s.state.Writes, "nothing to report")
	}
}
