package step

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/drover-project/drover/advice"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// maxMessage bounds a condition's message: the API allows 32 KiB, users read less.
const maxMessage = 4 << 10

// Conditions writes into an object's list of conditions.
type Conditions struct {
	list       *[]metav1.Condition
	generation int64
	now        time.Time
	touched    map[string]bool

	// Advise, if set, returns the actions that a user can take about a new condition; they become
	// part of its message.
	Advise func(metav1.Condition) []string
}

// NewConditions writes into list, for an object of this generation; 0 if the conditions do not
// depend on the object's spec.
func NewConditions(list *[]metav1.Condition, generation int64, now time.Time) *Conditions {
	return &Conditions{list: list, generation: generation, now: now, touched: map[string]bool{}}
}

// Set sets one condition; the transition time changes only when its status does.
func (c *Conditions) Set(condition string, status metav1.ConditionStatus, reason, message string) {
	reason = cmp.Or(reason, ErrorReason) // the API refuses a condition without one, and with it the whole status
	set := metav1.Condition{Type: condition, Status: status, Reason: reason, Message: cut(strings.ToValidUTF8(message, ""), maxMessage)}
	var next []string
	if c.Advise != nil {
		next = c.Advise(set)
	}
	set.Message = advice.Message(set.Message, next)
	c.set(set)
}

func (c *Conditions) set(condition metav1.Condition) {
	c.touched[condition.Type] = true
	condition.ObservedGeneration, condition.LastTransitionTime = c.generation, metav1.NewTime(c.now)
	meta.SetStatusCondition(c.list, condition)
}

// Repeat sets a condition to False with the reason, message and advice of another.
func (c *Conditions) Repeat(condition string, of metav1.Condition) {
	c.set(metav1.Condition{Type: condition, Status: metav1.ConditionFalse, Reason: of.Reason, Message: of.Message})
}

// Copy sets a condition to the status, reason, message and advice of another object's.
func (c *Conditions) Copy(condition string, of metav1.Condition) {
	c.set(metav1.Condition{Type: condition, Status: of.Status, Reason: of.Reason, Message: of.Message})
}

// Hold marks existing conditions as valid for this generation although no step checked them again.
// Clients that wait for a condition wait for its observedGeneration.
func (c *Conditions) Hold(conditions ...string) {
	for _, condition := range conditions {
		if found := c.Get(condition); found != nil {
			c.touched[condition], found.ObservedGeneration = true, c.generation
		}
	}
}

// Observe sets the object's new generation after this reconcile changed its spec: the results so
// far are valid for the new generation too.
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

// Summarize sets the condition ready from those named, in the order of their steps. The first
// existing condition that is not True gives its reason and message; if all are True, ready is True
// with the given reason. A missing condition belongs to a step that was not reached, or does not
// apply: the step that stopped before it reports this.
func (c *Conditions) Summarize(ready, reason string, order ...string) {
	for _, condition := range order {
		found := c.Get(condition)
		if found == nil || found.Status == metav1.ConditionTrue {
			continue
		}
		c.Repeat(ready, *found)
		return
	}
	c.True(ready, reason, "")
}

// CountServer sets Ready to False while the server is known not to exist, and to True again when it
// exists.
func (c *Conditions) CountServer() {
	exists, ready := c.Get(rkev1.ServerExistsCondition), c.Get(rkev1.ReadyCondition)
	switch {
	case exists == nil || ready == nil:
	case exists.Status == metav1.ConditionFalse && ready.Status == metav1.ConditionTrue:
		c.Repeat(rkev1.ReadyCondition, *exists)
	case exists.Status != metav1.ConditionFalse && ready.Reason == rkev1.ServerNotListedReason:
		c.True(rkev1.ReadyCondition, rkev1.ReadyReason, "")
	}
}

// cut keeps the first bytes of a text, without a partial character at the end.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

// maxNote is the longest note of an event that the API takes.
const maxNote = 1024

// Transitions are the changes in an object's conditions.
type Transitions struct {
	// Before and After are the conditions.
	Before, After []metav1.Condition
	// Of names the conditions whose changes are worth an event.
	Of []string
	// Quiet holds the reasons without an event, mostly of waiting.
	Quiet []string
	// Notes gives, by reason, the text of an event for a condition without a message.
	Notes map[string]string
}

// Emit writes one event for each condition that became True or False, or changed its reason.
// Unknown gives no event, nor does a nil recorder.
func Emit(recorder events.EventRecorder, obj runtime.Object, t Transitions) {
	if recorder == nil {
		return
	}
	kinds := map[metav1.ConditionStatus]string{metav1.ConditionTrue: corev1.EventTypeNormal, metav1.ConditionFalse: corev1.EventTypeWarning}
	for _, condition := range t.Of {
		was, now := ptr.Deref(meta.FindStatusCondition(t.Before, condition), metav1.Condition{}), meta.FindStatusCondition(t.After, condition)
		if now == nil || kinds[now.Status] == "" || slices.Contains(t.Quiet, now.Reason) {
			continue
		}
		if was.Status == now.Status && was.Reason == now.Reason {
			continue
		}
		what, _ := advice.Split(now.Message)
		note := cmp.Or(what, t.Notes[now.Reason], "The condition "+now.Type+" is now "+string(now.Status))
		recorder.Eventf(obj, nil, kinds[now.Status], now.Reason, now.Type, "%s", cut(note, maxNote))
	}
}

// EnsureFinalizer adds a finalizer to obj and reports whether it wrote. obj then has the content of
// the API server.
func EnsureFinalizer(ctx context.Context, c client.Writer, obj client.Object, finalizer string) (bool, error) {
	return patchMetadata(ctx, c, obj, func() bool { return controllerutil.AddFinalizer(obj, finalizer) })
}

// DropFinalizer removes a finalizer from obj and reports whether it wrote. The object may be gone
// afterwards, or before.
func DropFinalizer(ctx context.Context, c client.Writer, obj client.Object, finalizer string) (bool, error) {
	wrote, err := patchMetadata(ctx, c, obj, func() bool { return controllerutil.RemoveFinalizer(obj, finalizer) })
	return wrote, client.IgnoreNotFound(err)
}

func patchMetadata(ctx context.Context, c client.Writer, obj client.Object, change func() bool) (bool, error) {
	before := obj.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a deep copy has the type of its original
	if !change() {
		return false, nil
	}
	// A merge patch replaces the list of finalizers as a whole, so the optimistic lock excludes
	// concurrent changes.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, obj, patch); err != nil {
		return false, fmt.Errorf("changing the finalizers: %w", err)
	}
	return true, nil
}

// PatchStatus writes obj's status if it differs from before's, and reports whether it wrote. It
// writes only the status. The API server rejects the write as a conflict if before is not the
// stored object.
func PatchStatus(ctx context.Context, c client.StatusClient, before, obj client.Object) (bool, error) {
	if equality.Semantic.DeepEqual(before, obj) {
		return false, nil // the usual case, found without encoding both as JSON
	}
	data, err := client.MergeFrom(before).Data(obj)
	if err != nil {
		return false, fmt.Errorf("comparing the status: %w", err)
	}
	if string(data) == "{}" {
		return false, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, obj, patch); err != nil {
		return false, fmt.Errorf("writing the status: %w", err)
	}
	return true, nil
}

// Paused reports whether an object must not be changed because it or its Cluster is paused. It
// maintains the condition Paused, which names the paused one. The Cluster may be nil.
func (c *Conditions) Paused(cluster *clusterv1.Cluster, obj client.Object) bool {
	switch {
	case annotations.HasPaused(obj):
		c.True(rkev1.PausedCondition, clusterv1.PausedReason, "it has the annotation "+clusterv1.PausedAnnotation)
	case cluster != nil && ptr.Deref(cluster.Spec.Paused, false):
		c.True(rkev1.PausedCondition, clusterv1.PausedReason, "the Cluster is paused: spec.paused is true")
	default:
		c.False(rkev1.PausedCondition, clusterv1.NotPausedReason, "")
		return false
	}
	return true
}
