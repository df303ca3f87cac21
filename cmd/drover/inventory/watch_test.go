package inventory_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
)

// watching are the changes that an API reports, until the test ends.
type watching struct {
	changes <-chan inventory.Change
	stop    context.CancelFunc
}

func watch(t *testing.T, api *inventory.API, options inventory.ListOptions, kinds ...facts.Kind) watching {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	changes, err := api.Watch(ctx, kinds, options)
	require.NoError(t, err)
	return watching{changes, stop}
}

// next waits for a change.
func (w watching) next(t *testing.T) inventory.Change {
	t.Helper()
	timer := time.NewTimer(2 * time.Minute)
	defer timer.Stop()
	select {
	case change, open := <-w.changes:
		require.True(t, open, "the watch ended")
		return change
	case <-timer.C:
		t.Fatal("nothing was reported")
		return inventory.Change{}
	}
}

// ends expects that nothing more is reported once the watch is stopped.
func (w watching) ends(t *testing.T) {
	t.Helper()
	w.stop()
	for range w.changes {
		// What was on its way may still come.
	}
}

func TestWatch(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	first := w.machine(t, "GenericMachine", "a", `, labels: {pool: blue}`)
	watching := watch(t, w.API, inventory.ListOptions{Namespace: w.namespace, Selector: "pool=blue"}, generic, digitalocean)
	change := watching.next(t)
	require.Equal(t, first.UID, change.Machine.UID)
	require.Equal(t, generic, withoutShortNames(change.Machine.Kind))
	require.False(t, change.Deleted)

	other.machine(t, "GenericMachine", "elsewhere", `, labels: {pool: blue}`)
	w.machine(t, "GenericMachine", "green", `, labels: {pool: green}`)
	second := w.machine(t, "DigitaloceanMachine", "b", `, labels: {pool: blue}`)
	require.Equal(t, second.UID, watching.next(t).Machine.UID, "of another kind, and only with the label")
	require.NoError(t, w.Annotate(t.Context(), first, "k", "v"))
	change = watching.next(t)
	require.Equal(t, "v", change.Machine.Annotations["k"])
	require.NoError(t, w.Delete(t.Context(), w.object(t, first)))
	change = watching.next(t)
	require.Equal(t, first.UID, change.Machine.UID)
	require.True(t, change.Deleted)
	watching.ends(t)
}

func withoutShortNames(kind facts.Kind) facts.Kind {
	kind.ShortNames = generic.ShortNames
	return kind
}

// TestWatchEndsUnread: nobody reads, and the watch ends all the same with its context.
func TestWatchEndsUnread(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.machine(t, "GenericMachine", name, "")
	}
	watching := watch(t, w.API, inventory.ListOptions{Namespace: w.namespace}, generic)
	watching.next(t)
	watching.ends(t)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	changes, err := w.Watch(ctx, []facts.Kind{generic, digitalocean}, inventory.ListOptions{})
	require.NoError(t, err)
	for range changes {
		t.Fatal("a watch that never began reports nothing")
	}
	none, err := w.Watch(t.Context(), nil, inventory.ListOptions{})
	require.NoError(t, err)
	_, open := <-none
	require.False(t, open, "no kind, no changes")
}

// TestWatchDenied: who may list and not watch is told, and not left before a screen on which nothing happens.
func TestWatchDenied(t *testing.T) {
	w := newWorld(t)
	w.machine(t, "GenericMachine", "a", "")
	api := w.as(t, "lister", may("rke-machine.cattle.io", []string{"*"}, []string{"list"}))
	watching := watch(t, api, inventory.ListOptions{Namespace: w.namespace}, generic)
	var texts []string
	for len(texts) == 0 {
		if change := watching.next(t); change.Err != nil {
			require.Nil(t, change.Machine)
			texts = append(texts, inventory.Plain(change.Err))
		}
	}
	require.Equal(t, []string{`watching genericmachines: genericmachines.rke-machine.cattle.io is forbidden: User "lister" cannot watch resource "genericmachines" in API group "rke-machine.cattle.io" in the namespace "` + w.namespace + `"`}, texts)
	watching.ends(t)
}

// TestWatchMends: a watch that the server ends goes on, whether history is still there or not.
func TestWatchMends(t *testing.T) {
	w := newWorld(t)
	var watches atomic.Int32
	cut := make(chan struct{})
	api := w.through(t, func(out http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" {
			return false
		}
		switch watches.Add(1) {
		case 1:
			<-cut
			return answer(out, metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "too old resource version"})
		case 2:
			return answer(out, failure)
		}
		return false
	})
	watching := watch(t, api, inventory.ListOptions{Namespace: w.namespace}, generic)
	made := w.machine(t, "GenericMachine", "a", "")
	close(cut)
	var problems []string
	for {
		change := watching.next(t)
		if change.Err == nil {
			require.Equal(t, made.UID, change.Machine.UID)
			break
		}
		problems = append(problems, change.Err.Error())
	}
	require.LessOrEqual(t, len(problems), 1)
	for _, problem := range problems {
		require.True(t, strings.HasPrefix(problem, "watching genericmachines: "), problem)
	}
	watching.ends(t)
}
