package facts

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
)

// EventTime is when an event happened last; components fill different fields.
func EventTime(e corev1.Event) time.Time {
	observed := ptr.Deref(e.Series, corev1.EventSeries{}).LastObservedTime
	return cmp.Or(observed.Time, e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time)
}

// Age is how long ago something was, as kubectl's tables have it; empty when that is not known.
func Age(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	// The user's clock may be behind the cluster's clock.
	return duration.HumanDuration(max(now.Sub(then), 0))
}
