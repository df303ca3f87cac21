package limit

import "sync"

// Quota counts the sizes of named items that stay in memory, each below a key. Its callers do not
// wait: an item that does not fit is rejected.
type Quota[K, N comparable] struct {
	perKey, total int

	mu    sync.Mutex
	items map[N]item[K]
	used  map[K]int
	sum   int
}

type item[K comparable] struct {
	key  K
	size int
}

// NewQuota makes a quota with a cap for each key, and one for all keys together; 0 sets no cap.
func NewQuota[K, N comparable](perKey, total int) *Quota[K, N] {
	return &Quota[K, N]{perKey: perKey, total: total, items: map[N]item[K]{}, used: map[K]int{}}
}

// Set counts an item with a new size, and reports whether it fits. If it does not, the item counts
// as before.
func (q *Quota[K, N]) Set(key K, name N, size int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	before, had := q.items[name]
	q.remove(name)
	if q.perKey > 0 && q.used[key]+size > q.perKey || q.total > 0 && q.sum+size > q.total {
		if had {
			q.add(before.key, name, before.size)
		}
		return false
	}
	q.add(key, name, size)
	return true
}

// Delete gives the size of an item back.
func (q *Quota[K, N]) Delete(name N) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.remove(name)
}

// Used returns the size of all items below a key.
func (q *Quota[K, N]) Used(key K) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used[key]
}

func (q *Quota[K, N]) add(key K, name N, size int) {
	q.items[name] = item[K]{key: key, size: size}
	q.used[key] += size
	q.sum += size
}

func (q *Quota[K, N]) remove(name N) {
	one, ok := q.items[name]
	if !ok {
		return
	}
	delete(q.items, name)
	q.sum -= one.size
	if q.used[one.key] -= one.size; q.used[one.key] == 0 {
		delete(q.used, one.key)
	}
}
