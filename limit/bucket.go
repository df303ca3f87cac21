package limit

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// maxKeys bounds the keys that Buckets remembers. It forgets the key that was used least recently,
// which then has a full bucket.
const maxKeys = 8192

// Buckets is a token bucket per key.
type Buckets[K comparable] struct {
	perSecond rate.Limit
	burst     int

	mu sync.Mutex
	// limiters are by key.
	limiters *lru.Cache
}

// NewBuckets creates token buckets that begin full with burst tokens and are refilled at the rate.
// A rate of 0 sets no limit.
func NewBuckets[K comparable](perSecond rate.Limit, burst int) *Buckets[K] {
	if perSecond == 0 {
		perSecond = rate.Inf
	}
	return &Buckets[K]{perSecond: perSecond, burst: burst, limiters: lru.New(maxKeys)}
}

// Allow takes a token, and reports whether there was one.
func (b *Buckets[K]) Allow(key K, now time.Time) bool {
	return b.perSecond == rate.Inf || b.of(key).AllowN(now, 1)
}

// Wait takes n tokens, and waits for them until the context ends. It returns an error immediately
// if the wait would be longer, or if n is greater than the burst.
func (b *Buckets[K]) Wait(ctx context.Context, key K, n int) error { return b.of(key).WaitN(ctx, n) }

// Tokens returns the number of tokens in the bucket of a key, without taking any.
func (b *Buckets[K]) Tokens(key K, now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if found, ok := b.limiters.Get(key); ok {
		return found.(*rate.Limiter).TokensAt(now) //nolint:forcetypeassert // it holds limiters only
	}
	return float64(b.burst)
}

// Keys returns how many keys are remembered.
func (b *Buckets[K]) Keys() int { return b.limiters.Len() }

func (b *Buckets[K]) of(key K) *rate.Limiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	found, ok := b.limiters.Get(key)
	if !ok {
		found = rate.NewLimiter(b.perSecond, b.burst)
		b.limiters.Add(key, found)
	}
	return found.(*rate.Limiter) //nolint:forcetypeassert // it holds limiters only
}
