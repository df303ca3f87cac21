package step

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// maxMessage bounds a condition's message: the API allows 32 KiB, people read less.
const maxMessage = 4 << 10

// Conditions writes into an object's list of conditions.
type Conditions struct {
	list       *[]metav1.Condition
	generation int64
	now        time.Time
	touched    map[string]bool
}

// NewConditions writes into list, for an object of this generation.
func NewConditions(list *[]metav1.Condition, generation int64, now time.Time) *Conditions {
	return &Conditions{list: list, generation: generation, now: now, touched: map[string]bool{}}
}

// Set sets one condition; the transition time changes only when its status does.
func (c *Conditions) Set(condition string, status metav1.ConditionStatus, reason, message string) {
	c.touched[condition] = true
	if reason == "" {
		reason = ErrorReason // the API refuses a condition without one, and with it the whole status
	}
	meta.SetStatusCondition(c.list, metav1.Condition{
		Type: condition, Status: status, Reason: reason, Message: cut(strings.ToValidUTF8(message, ""), maxMessage),
		ObservedGeneration: c.generation, LastTransitionTime: metav1.NewTime(c.now),
	})
}

// Observe says that the object has another generation now, because this reconcile changed its spec: what was found out holds
// for that one too.
func (c *Conditions) Observe(generation int64) {
	c.generation = generation
	for i := range *c.list {
		if c.touched[(*c.list)[i].Type] {
			(*c.list)[i].ObservedGeneration = generation
		}
	}
}

// True sets one condition to True.
func (c *Conditions) True(condition, reason, message string) {
	c.Set(condition, metav1.ConditionTrue, reason, message)
}

// False sets one condition to False.
func (c *Conditions) False(condition, reason, message string) {
	c.Set(condition, metav1.ConditionFalse, reason, message)
}

// Get returns one condition, or nil.
func (c *Conditions) Get(condition string) *metav1.Condition {
	return meta.FindStatusCondition(*c.list, condition)
}

// Drop removes conditions whose step does not apply any more.
func (c *Conditions) Drop(conditions ...string) {
	for _, condition := range conditions {
		meta.RemoveStatusCondition(c.list, condition)
	}
}

// Summarize sets the condition ready from those named, in the order of their steps: the first that is there and not True
// gives its reason and message; when all are there and True, ready is True for the reason given. A condition that is not
// there belongs to a step that was not reached, or does not apply: one that stopped before it says so itself.
func (c *Conditions) Summarize(ready, reason string, order ...string) {
	for _, condition := range order {
		found := c.Get(condition)
		if found == nil || found.Status == metav1.ConditionTrue {
			continue
		}
		c.False(ready, found.Reason, found.Message)
		return
	}
	c.True(ready, reason, "")
}

// CountServer makes Ready False while the server is known not to exist, and True again when it is there.
func (c *Conditions) CountServer() {
	exists, ready := c.Get(rkev1.ServerExistsCondition), c.Get(rkev1.ReadyCondition)
	switch {
	case exists == nil || ready == nil:
	case exists.Status == metav1.ConditionFalse && ready.Status == metav1.ConditionTrue:
		c.False(rkev1.ReadyCondition, exists.Reason, exists.Message)
	case exists.Status != metav1.ConditionFalse && ready.Reason == rkev1.ServerNotListedReason:
		c.True(rkev1.ReadyCondition, rkev1.ReadyReason, "")
	}
}

// cut keeps the first bytes of a text, without half a character at the end.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}
