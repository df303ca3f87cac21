package step

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// maxNote is the longest note of an event that the API takes.
const maxNote = 1024

// Transitions are what changed in an object's conditions.
type Transitions struct {
	// Before and After are the conditions.
	Before, After []metav1.Condition
	// Of names the conditions whose changes are worth an event.
	Of []string
	// Quiet holds the reasons that are not: those of waiting, mostly.
	Quiet []string
	// Notes say, by reason, what an event says of a condition that has no message.
	Notes map[string]string
}

// Emit writes one event for each condition that became True or False, or is so for another reason. Unknown gives none.
func Emit(recorder events.EventRecorder, obj runtime.Object, t Transitions) {
	quiet := map[string]bool{}
	for _, reason := range t.Quiet {
		quiet[reason] = true
	}
	for _, condition := range t.Of {
		now := meta.FindStatusCondition(t.After, condition)
		if now == nil || now.Status == metav1.ConditionUnknown || quiet[now.Reason] {
			continue
		}
		was := meta.FindStatusCondition(t.Before, condition)
		if was != nil && was.Status == now.Status && was.Reason == now.Reason {
			continue
		}
		emit(recorder, obj, now, t.Notes[now.Reason])
	}
}

func emit(recorder events.EventRecorder, obj runtime.Object, now *metav1.Condition, note string) {
	kind := corev1.EventTypeWarning
	if now.Status == metav1.ConditionTrue {
		kind = corev1.EventTypeNormal
	}
	if now.Message != "" {
		note = now.Message
	}
	if note == "" {
		note = "The condition " + now.Type + " is now " + string(now.Status)
	}
	recorder.Eventf(obj, nil, kind, now.Reason, now.Type, "%s", cut(note, maxNote))
}
