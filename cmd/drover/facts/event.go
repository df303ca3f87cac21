package facts

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// EventTime is when an event happened last; components fill different fields.
func EventTime(e corev1.Event) time.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	default:
		return e.CreationTimestamp.Time
	}
}

// Age is how long ago something was, as kubectl's tables have it; empty when that is not known.
func Age(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	// The clock of whoever asks may be behind that of the cluster.
	return duration.HumanDuration(max(now.Sub(then), 0))
}
