package limit

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Semaphore limits how many callers of one key, and of all keys together, work at the same time.
// The callers of a key are served in the order in which they ask. A key at its cap does not delay
// other keys.
type Semaphore[K comparable] struct {
	perKey int64
	total  *semaphore.Weighted

	mu   sync.Mutex
	keys map[K]*keyed
}

// keyed is the semaphore of one key. It is dropped with its last user.
type keyed struct {
	*semaphore.Weighted

	users int
}

// NewSemaphore makes a semaphore with a cap for each key, and one for all keys together; a total of
// 0 sets no cap for all.
func NewSemaphore[K comparable](perKey, total int64) *Semaphore[K] {
	s := &Semaphore[K]{perKey: perKey, keys: map[K]*keyed{}}
	if total > 0 {
		s.total = semaphore.NewWeighted(total)
	}
	return s
}

// Acquire waits for a permit until the context ends. The caller calls release when it has finished;
// further calls of release do nothing.
func (s *Semaphore[K]) Acquire(ctx context.Context, key K) (release func(), err error) {
	own := s.use(key)
	if err := acquire(ctx, own.Weighted); err != nil {
		s.leave(key, own)
		return nil, fmt.Errorf("waiting for one of the %d permits of %v: %w", s.perKey, key, err)
	}
	if s.total != nil {
		if err := acquire(ctx, s.total); err != nil {
			own.Release(1)
			s.leave(key, own)
			return nil, fmt.Errorf("waiting for one of the permits of all: %w", err)
		}
	}
	return sync.OnceFunc(func() {
		if s.total != nil {
			s.total.Release(1)
		}
		own.Release(1)
		s.leave(key, own)
	}), nil
}

// Keys returns how many keys have callers.
func (s *Semaphore[K]) Keys() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys)
}

// acquire takes a free permit also if the context has ended.
func acquire(ctx context.Context, from *semaphore.Weighted) error {
	if from.TryAcquire(1) {
		return nil
	}
	return from.Acquire(ctx, 1)
}

func (s *Semaphore[K]) use(key K) *keyed {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.keys[key]
	if own == nil {
		own = &keyed{Weighted: semaphore.NewWeighted(s.perKey)}
		s.keys[key] = own
	}
	own.users++
	return own
}

func (s *Semaphore[K]) leave(key K, own *keyed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(s.keys, key)
	}
}
