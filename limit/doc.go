// Package limit has the limiters that workers and requests share:
//
//   - Semaphore: a semaphore per key with a cap for all. Callers wait.
//   - Preemptive: the same for callers that cannot wait. The heaviest key loses its oldest permit.
//   - Queue: a semaphore whose callers are reconciled, and must not block.
//   - Buckets: a token bucket per key.
//   - Bytes: a memory budget that workers share. Callers wait.
//   - Quota: the sizes of things that stay in memory, by key. Callers do not wait.
//
// A caller takes a limiter as an option, so that a test can make a small one. The package has
// no state.
//
// It reads and writes nothing. controllers, endpoint and capi acquire a permit before they work.
// Package fairqueue, below, is the work queue of controllers.
package limit
