package agent

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/drover-project/drover/api/plan"
)

// Defaults of probes and the time between two rounds, as system-agent has them.
const (
	defaultTimeout          = time.Second
	defaultSuccessThreshold = 1
	defaultFailureThreshold = 3
	defaultProbePeriod      = 5 * time.Second
	maxProbePeriod          = time.Hour
	// reasonPeriod is how long the agent keeps a reported reason before it reports another. Some
	// reasons change with each answer.
	reasonPeriod = time.Minute
)

// probes are the results of the probes of one order.
type probes struct {
	statuses map[string]plan.ProbeStatus
	// why has the reasons of those that failed as often as their threshold.
	why map[string]string
	// reported and reportedWhy are the last report, from reportedAt. They change when a probe turns
	// healthy or unhealthy, not with each count.
	reported    map[string]plan.ProbeStatus
	reportedWhy map[string]string
	reportedAt  time.Time
}

// newProbes starts from the results that an earlier agent reported of the same order, or from
// nothing.
func newProbes(p plan.Plan, reported map[string]plan.ProbeStatus) *probes {
	all := &probes{statuses: map[string]plan.ProbeStatus{}, why: map[string]string{}}
	for name := range p.Probes {
		all.statuses[name] = reported[name]
	}
	all.reported = maps.Clone(all.statuses)
	return all
}

// round runs all due probes concurrently, waits for the answers, and reports whether a result
// changed.
func (all *probes) round(ctx context.Context, p plan.Plan, since, now time.Time) bool {
	var wait sync.WaitGroup
	var mu sync.Mutex
	for name, probe := range p.Probes {
		if now.Sub(since) < time.Duration(probe.InitialDelaySeconds)*time.Second {
			continue
		}
		wait.Go(func() {
			err := ask(ctx, probe)
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() == nil {
				all.note(name, probe, err)
			}
		})
	}
	wait.Wait()
	for name, status := range all.statuses {
		why, before := all.why[name], all.reportedWhy[name]
		if all.reported[name].Healthy != status.Healthy || why != "" && why != before && (before == "" || now.Sub(all.reportedAt) >= reasonPeriod) {
			all.reported, all.reportedWhy, all.reportedAt = maps.Clone(all.statuses), maps.Clone(all.why), now
			return true
		}
	}
	return false
}

// note counts an answer, up to the threshold it needs.
func (all *probes) note(name string, probe plan.Probe, err error) {
	s := all.statuses[name]
	success, failure := cmp.Or(probe.SuccessThreshold, defaultSuccessThreshold), cmp.Or(probe.FailureThreshold, defaultFailureThreshold)
	if err == nil {
		s.SuccessCount, s.FailureCount = min(s.SuccessCount+1, success), 0
		s.Healthy = s.Healthy || s.SuccessCount >= success
	} else {
		s.FailureCount, s.SuccessCount = min(s.FailureCount+1, failure), 0
		s.Healthy = s.Healthy && s.FailureCount < failure
	}
	all.statuses[name] = s
	delete(all.why, name)
	if !s.Healthy && s.FailureCount >= failure {
		all.why[name] = plan.Head(err.Error(), plan.MaxMessageBytes/4)
	}
}

// ask sends one GET. It reads the certificates each time, because the distribution renews them.
func ask(ctx context.Context, p plan.Probe) error {
	target, err := url.Parse(p.HTTPGet.URL)
	if err != nil || (target.Scheme != "http" && target.Scheme != "https") || target.Host == "" {
		return errors.New("its URL is not one of http or https")
	}
	config, err := TLSConfig(p.HTTPGet)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(cmp.Or(p.TimeoutSeconds, int(defaultTimeout/time.Second)))*time.Second)
	defer cancel()
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return fmt.Errorf("making request: %w", err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return withoutAddresses(err)
	}
	_, _ = io.CopyN(io.Discard, answer.Body, 10<<10)
	_ = answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode >= 400 {
		return fmt.Errorf("it answers %s", answer.Status)
	}
	return nil
}

// withoutAddresses is why a request failed: the port that it came from is another each time, and a
// reason that changes is written again.
func withoutAddresses(err error) error {
	err = errors.Unwrap(err) // http.Client's own prefix
	for {
		inner, ok := errors.AsType[*net.OpError](err)
		if !ok {
			return err
		}
		err = inner.Err
	}
}

// TLSConfig is how a server is spoken to for which a plan or a registries.yaml names files of this
// server.
func TLSConfig(get plan.HTTPGet) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: get.Insecure} //nolint:gosec // the planner says so of a server on this node, the user of a registry
	if get.CACert != "" {
		pem, err := ReadBounded(get.CACert, 1<<20)
		if err != nil {
			return nil, fmt.Errorf("reading its CA certificate: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("reading its CA certificate: no certificate in %s", get.CACert)
		}
	}
	if get.ClientCert != "" || get.ClientKey != "" {
		pair, err := tls.LoadX509KeyPair(get.ClientCert, get.ClientKey)
		if err != nil {
			return nil, fmt.Errorf("reading its client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
