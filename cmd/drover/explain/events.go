package explain

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/cmd/drover/facts"
)

// eventLines is how many events fit on one screen beside the rest.
const eventLines = 6

// newEvents takes the newest events, oldest first.
func newEvents(events []corev1.Event) []Event {
	if len(events) > eventLines {
		events = events[len(events)-eventLines:]
	}
	var list []Event
	for _, e := range events {
		count := e.Count
		if e.Series != nil {
			count = e.Series.Count
		}
		list = append(list, Event{
			Time: facts.EventTime(e).UTC(), Type: cmp.Or(clean(e.Type), corev1.EventTypeNormal), Reason: clean(e.Reason),
			Object: clean(e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name), Message: clean(e.Message), Count: count,
		})
	}
	return list
}
