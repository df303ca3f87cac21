package workload

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Limits on the responses of a workload cluster's API server. A root user on a control plane, or
// the author of the kubeconfig, chooses every byte of them.
const (
	// maxAnswer bounds the response to one call. etcd stores objects of up to 1.5 MiB, and Cluster
	// API lists in pages.
	maxAnswer = 2 << 20
	// maxList bounds a page of the list of Nodes with which a cache begins.
	maxList = 4 << 20
	// maxEvent bounds one event of a watch.
	maxEvent = 2 << 20
	// maxHeader bounds the header of an answer.
	maxHeader = 64 << 10
	// callTime bounds one call with its answer; listTime the first list of a cache.
	callTime = 5 * time.Second
	listTime = 30 * time.Second
	// callWait is how long a call waits for its permit; a first list waits listTime.
	callWait = 250 * time.Millisecond
)

// errAnswer means that the response of a workload cluster's API server is rejected.
var errAnswer = errors.New("the API server's response is rejected")

// errLate means that a workload cluster's API server did not answer in time.
var errLate = errors.New("the API server did not respond in time")

// errBusy means that other calls to clusters of the namespace have not ended.
var errBusy = errors.New("too many requests to clusters of this namespace are in flight")

// limited is the transport to one workload cluster. Each call holds a permit of the Cluster's
// namespace until its response is read.
type limited struct {
	next   http.RoundTripper
	tenant *tenant
	// turn waits for the permit of a call; it may be nil. A watch needs no permit.
	turn func(context.Context) (release func(), ok bool)
	// pages counts lists in pages; nil if the caller counts them.
	pages *pages
	// answer and time bound every request except a watch.
	answer int
	time   time.Duration
	// ended is called with how each call ended; it may be nil.
	ended func(error)
}

// newTransport connects only to the server that config names and the other servers of its cluster,
// with HTTP/1.1, and unpacks nothing. client-go caches its own transports for ever by their TLS
// configuration, which a user may change any number of times.
func newTransport(d *dialer) *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: d.secure, DialTLSContext: d.Dial, DialContext: (&net.Dialer{Timeout: callTime}).DialContext,
		TLSHandshakeTimeout: callTime, MaxResponseHeaderBytes: maxHeader, DisableCompression: true,
		MaxIdleConnsPerHost: 4, MaxConnsPerHost: 32, IdleConnTimeout: 90 * time.Second,
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
}

// httpClient adds the credential of config and the limits.
func (l limited) httpClient(config *rest.Config, transport *http.Transport) (*http.Client, error) {
	l.next = transport
	wrapped, err := rest.HTTPWrappersForConfig(config, &l)
	if err != nil {
		return nil, fmt.Errorf("adding the credential: %w", err)
	}
	return &http.Client{Transport: wrapped, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// RoundTrip implements http.RoundTripper.
func (l *limited) RoundTrip(request *http.Request) (*http.Response, error) {
	watch := isWatch(request.URL)
	if l.pages != nil {
		if err := l.pages.begin(request.URL, time.Now()); err != nil {
			return nil, err
		}
	}
	release := func() {}
	if !watch && l.turn != nil {
		var ok bool
		if release, ok = l.turn(request.Context()); !ok {
			return nil, errBusy
		}
	}
	ctx, cancel := context.WithCancelCause(request.Context())
	end := func(err error) {
		release()
		cancel(err)
		if l.ended != nil {
			l.ended(err)
		}
	}
	bound := l.time
	if watch {
		bound = callTime // to the header
	}
	timer := time.AfterFunc(bound, func() { cancel(errLate) })
	response, err := l.next.RoundTrip(request.WithContext(ctx))
	if err == nil {
		if err = acceptable(response); err != nil {
			_ = response.Body.Close()
		}
	}
	if err != nil {
		timer.Stop()
		err = causeOf(ctx, err)
		end(err)
		return nil, err
	}
	body := &boundedBody{ctx: ctx, body: response.Body, tenant: l.tenant, scan: scanner{limit: l.answer}}
	body.end = func(err error) {
		if l.pages != nil {
			l.pages.add(request.URL, body.scan.bytes, time.Now())
		}
		end(err)
	}
	if watch {
		timer.Stop()
		body.scan = scanner{limit: maxEvent, stream: true}
	} else {
		body.timer = timer
	}
	response.Body = body
	return response, nil
}

func isWatch(target *url.URL) bool {
	asked := target.Query().Get("watch")
	return asked == "true" || asked == "1"
}

// acceptable rejects responses that would redirect, be unpacked, or be decoded in a format that is
// not counted here. It drops Retry-After, because client-go would block its caller for that long.
func acceptable(response *http.Response) error {
	response.Header.Del("Retry-After")
	if response.StatusCode < 200 || (response.StatusCode >= 300 && response.StatusCode < 400) {
		return fmt.Errorf("%w: unexpected redirect or protocol upgrade", errAnswer)
	}
	if !slices.Contains([]string{"", "identity"}, response.Header.Get("Content-Encoding")) {
		return fmt.Errorf("%w: unexpected compression", errAnswer)
	}
	kind := response.Header.Get("Content-Type")
	if kind == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(kind)
	if err != nil || !slices.Contains([]string{"application/json", "text/plain", "text/html"}, media) {
		return fmt.Errorf("%w: it is not JSON", errAnswer)
	}
	return nil
}

// causeOf prefers our own reason to "context canceled".
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errLate) {
		return cause
	}
	return err
}

// boundedBody reads up to its limits, at the rate of the token buckets of its namespace.
type boundedBody struct {
	ctx    context.Context //nolint:containedctx // the request's, which ends with the body
	body   io.ReadCloser
	tenant *tenant
	scan   scanner
	timer  *time.Timer
	end    func(error)
	err    error
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	const most = 32 << 10
	n, err := b.body.Read(p[:min(len(p), most)])
	err = cmp.Or(err, b.tenant.bytes.Wait(b.ctx, b.tenant.namespace, n))
	events := b.scan.documents
	if scanErr := b.scan.read(p[:n]); scanErr != nil {
		n, err = 0, scanErr
	}
	if events = b.scan.documents - events; events > eventsBurst {
		n, err = 0, fmt.Errorf("%w: too many events", errAnswer)
	} else {
		err = cmp.Or(err, b.tenant.events.Wait(b.ctx, b.tenant.namespace, events))
	}
	if err != nil {
		b.err = err
		if !errors.Is(err, io.EOF) {
			b.err = causeOf(b.ctx, err)
		}
	}
	return n, b.err
}

// Close implements io.Closer.
func (b *boundedBody) Close() error {
	if b.timer != nil {
		b.timer.Stop()
	}
	err := b.body.Close()
	if b.end != nil {
		outcome := b.err
		if errors.Is(outcome, io.EOF) {
			outcome = nil
		}
		b.end(outcome)
		b.end = nil
	}
	return err
}

const (
	// maxPaged bounds the bytes of paged lists in progress for a namespace's clusters. Cluster API
	// collects all pages of a list, and the server decides which page is the last.
	maxPaged = 16 << 20
	// pagedTime is how long after its last page a list counts as being read.
	pagedTime = 30 * time.Second
)

// pages counts lists that are given in pages.
type pages struct {
	mu    sync.Mutex
	lists map[string]pagedList
}

type pagedList struct {
	bytes int
	last  time.Time
}

// begin refuses one more page when there were too many.
func (p *pages) begin(target *url.URL, now time.Time) error {
	list, next := listOf(target)
	if list == "" {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !next {
		delete(p.lists, list)
		return nil
	}
	sum := 0
	for key, one := range p.lists {
		if now.Sub(one.last) > pagedTime {
			delete(p.lists, key)
			continue
		}
		sum += one.bytes
	}
	if sum > maxPaged {
		return fmt.Errorf("%w: too many pages", errAnswer)
	}
	return nil
}

// add counts a page that was read.
func (p *pages) add(target *url.URL, bytes int, now time.Time) {
	list, _ := listOf(target)
	if list == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lists == nil {
		p.lists = map[string]pagedList{}
	}
	// An empty page counts, too, so that no list is endless.
	const least = 16 << 10
	p.lists[list] = pagedList{bytes: p.lists[list].bytes + max(bytes, least), last: now}
}

// listOf returns the list that a request reads a page of, and reports whether it is not the first
// page.
func listOf(target *url.URL) (name string, next bool) {
	query := target.Query()
	if isWatch(target) || query.Get("limit") == "" {
		return "", false
	}
	next = query.Get("continue") != ""
	query.Del("continue")
	return target.Host + target.Path + "?" + query.Encode(), next
}
