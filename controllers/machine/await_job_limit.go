package machine

import (
	"context"
	"fmt"
	"sync"

	batchv1 "k8s.io/api/batch/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/machine/joblimit"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// jobs is the limit of the machines' Jobs. It learns once of those that an earlier manager started.
type jobs struct {
	*joblimit.Limiter[Request]
	mu      sync.Mutex
	learned bool
}

// learn takes in the Jobs that run, before the first new one is let pass.
func (j *jobs) learn(ctx context.Context, r *Reconciler) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.learned || j.Limit() == 0 {
		return nil
	}
	list := &batchv1.JobList{}
	if err := r.Cache.List(ctx, list); err != nil {
		return fmt.Errorf("listing the Jobs that run: %w", err)
	}
	for i := range list.Items {
		if jobrunner.JobEnded(&list.Items[i]) {
			continue
		}
		for _, request := range ofMachine(&list.Items[i]) {
			j.Hold(request, request.Namespace)
		}
	}
	j.learned = true
	return nil
}

// awaitJobLimit waits until this machine's Job may run beside those of the others.
func (r *Reconciler) awaitJobLimit(ctx context.Context, s *scope, operation state.Operation) error {
	if err := r.jobs.learn(ctx, r); err != nil {
		return err
	}
	ok, ahead := r.jobs.Acquire(s.request, s.GetNamespace(), operation == state.Remove)
	if ok {
		return nil
	}
	s.jobWanted = true
	place := "this one is the next"
	switch {
	case ahead == 1:
		place = "1 machine is ahead of this one"
	case ahead > 1:
		place = fmt.Sprintf("%d machines are ahead of this one", ahead)
	}
	return step.Wait(rkev1.JobQueuedReason, fmt.Sprintf("as many Jobs run as may run at once (--max-concurrent-jobs=%d), and %s", r.jobs.Limit(), place), heldCheck)
}

// releaseJob lets another machine start its Job when this one has none, and wants none. Of one that cannot be looked at it is not known.
func (r *Reconciler) releaseJob(ctx context.Context, s *scope, outcome error) {
	if s.jobWanted || outcome != nil && !isWaiting(outcome) || !r.jobs.Knows(s.request) {
		return
	}
	if s.state.Claimed && !s.released {
		evidence, err := r.gather(ctx, s)
		if err != nil || evidence.Job != nil && !jobrunner.JobEnded(evidence.Job) || evidence.Outliving() != nil {
			return
		}
	}
	r.jobs.Release(s.request)
}
