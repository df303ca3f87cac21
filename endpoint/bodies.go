package endpoint

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// maxBody is what controller-runtime takes for a review: an old and a new object of at most 3 MiB each, and the rest.
	maxBody = 7 << 20
	// smallBody parts what everybody sends from what few do: large bodies wait for each other, small ones for no large one.
	smallBody = 128 << 10
	// leastBody is what a request costs whatever its body.
	leastBody = 16 << 10
)

// lane bounds the bodies of one size: how many bytes may be read at once, which of them have memory, for one that is taken away gives
// its memory back a moment later, and how many may be decoded at once. Decoded, a body of empty JSON objects takes some twenty times
// its size.
type lane struct {
	reading         *shares
	memory, decoded *semaphore.Weighted
}

// bodies reads each request's body, within bounds, before its handler runs.
type bodies struct {
	next         http.Handler
	small, large lane
	readTimeout  time.Duration
}

func newBodies(name string, next http.Handler, readTimeout time.Duration) *bodies {
	refused := refusals.WithLabelValues(name, "bodies").Inc
	makeLane := func(reading, decoded int64) lane {
		return lane{reading: newShares(reading, reading, refused), memory: semaphore.NewWeighted(reading), decoded: semaphore.NewWeighted(decoded)}
	}
	return &bodies{next: next, readTimeout: readTimeout, small: makeLane(16<<20, 4<<20), large: makeLane(24<<20, 8<<20)}
}

var errEvicted = errors.New("the body took too long while others waited")

const busy = "too many requests of this size at once"

// ServeHTTP implements http.Handler.
func (b *bodies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	size := r.ContentLength
	switch {
	case size < 0:
		http.Error(w, "the request must tell its length", http.StatusLengthRequired)
		return
	case size > maxBody:
		http.Error(w, "the request is too large", http.StatusRequestEntityTooLarge)
		return
	}
	part := b.small
	if size > smallBody {
		part = b.large
	}
	weight := max(size, leastBody)
	ctx, cancel := context.WithTimeout(r.Context(), WebhookLimits.WriteTimeout)
	defer cancel()
	controller := http.NewResponseController(w)
	claim := part.reading.claim(addressOf(r.RemoteAddr), weight, func() {
		cancel()
		_ = controller.SetReadDeadline(time.Unix(1, 0))
	})
	if claim == nil {
		http.Error(w, busy, http.StatusTooManyRequests)
		return
	}
	defer claim.release()
	if err := part.memory.Acquire(ctx, weight); err != nil {
		http.Error(w, busy, http.StatusServiceUnavailable)
		return
	}
	defer part.memory.Release(weight)
	body, err := b.read(controller, r, claim)
	if err != nil {
		http.Error(w, "reading the request: "+err.Error(), http.StatusRequestTimeout)
		return
	}
	if err := part.decoded.Acquire(ctx, weight); err != nil {
		http.Error(w, busy, http.StatusServiceUnavailable)
		return
	}
	defer part.decoded.Release(weight)
	proveConnection(ctx)
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	b.next.ServeHTTP(w, r)
}

// read takes memory for the whole body at once, as its claim says.
func (b *bodies) read(controller *http.ResponseController, r *http.Request, c *claim) ([]byte, error) {
	if err := c.unlessEvicted(func() error { return controller.SetReadDeadline(time.Now().Add(b.readTimeout)) }); err != nil {
		return nil, err
	}
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return nil, err
	}
	if !c.keep() {
		return nil, errEvicted
	}
	return body, nil
}
