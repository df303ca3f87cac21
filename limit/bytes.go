package limit

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Bytes is a memory budget that workers share. Callers are served in the order in which they ask.
type Bytes struct {
	size      int64
	semaphore *semaphore.Weighted
}

// NewBytes makes a budget of so many bytes.
func NewBytes(size int64) *Bytes {
	return &Bytes{size: size, semaphore: semaphore.NewWeighted(size)}
}

// Acquire waits until so many bytes of the budget are free, or until the context ends. A caller
// that needs more than the whole budget gets the whole budget, so that it runs alone. The caller
// calls release when it has finished; further calls of release do nothing.
func (b *Bytes) Acquire(ctx context.Context, bytes int64) (release func(), err error) {
	bytes = min(max(bytes, 0), b.size)
	if err := b.semaphore.Acquire(ctx, bytes); err != nil {
		return nil, fmt.Errorf("waiting for %d of the %d bytes of the memory budget: %w", bytes, b.size, err)
	}
	return sync.OnceFunc(func() { b.semaphore.Release(bytes) }), nil
}
