package step

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-project/drover/limit"
)

const (
	// paceRest is the mean time between two writes of a status that only describes progress.
	paceRest = 3 * time.Second
	// paceBurst is how many of them need not wait.
	paceBurst = 1
)

// Pace holds back writes of a status that only describes progress: while a cluster is created, each
// event of an object changes a number or a message. A nil Pace holds back nothing.
type Pace struct{ buckets *limit.Buckets[types.UID] }

// NewPace creates a Pace for the objects of one kind.
func NewPace() *Pace {
	return &Pace{limit.NewBuckets[types.UID](rate.Every(paceRest), paceBurst)}
}

// Wait returns the time after which the status of an object is written; 0 for now. A status with a
// condition that is new, that turned, or that is of another generation is written now.
func (p *Pace) Wait(uid types.UID, before, after []metav1.Condition, now time.Time) time.Duration {
	if p == nil || len(before) != len(after) {
		return 0
	}
	for _, condition := range after {
		earlier := meta.FindStatusCondition(before, condition.Type)
		if earlier == nil || earlier.Status != condition.Status || earlier.ObservedGeneration != condition.ObservedGeneration {
			return 0
		}
	}
	if p.buckets.Allow(uid, now) {
		return 0
	}
	return paceRest
}

// Sooner returns a result that requeues after a time at the latest.
func Sooner(result reconcile.Result, after time.Duration) reconcile.Result {
	if result.RequeueAfter <= 0 || after < result.RequeueAfter {
		result.RequeueAfter = after
	}
	return result
}
