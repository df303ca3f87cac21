package machine_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
)

// With a limit, machines say how many are ahead and write nothing while that changes little. A restart, a pause and a deletion keep to it.
func TestJobLimit(t *testing.T) {
	c := newCrowd(t, 6)
	c.limit, c.cache = 2, client.NewNamespacedClient(c.client, c.namespace) // other tests have Jobs too
	c.restart()
	c.reconcileAll()
	require.Equal(t, []string{"m0-create-1", "m1-create-1"}, c.jobs())
	for i, want := range []string{"this one is the next", "1 machine is ahead of this one", "2 machines are ahead of this one", "3 machines are ahead of this one"} {
		s := c.all[i+2]
		require.Contains(t, s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.JobQueuedReason).Message, "(--max-concurrent-jobs=2), and "+want)
		require.Equal(t, rkev1.PhasePending, s.read().Phase)
	}
	clear(c.writes)
	c.reconcileAll()
	require.Zero(t, c.wrote(), "%v", c.writes)

	c.restart()
	c.all[5].reconcile()
	require.Len(t, c.jobs(), 2, "a new manager knows those that run before it starts one")
	c.reconcileAll()

	c.pause(true)
	c.all[0].succeed(1)
	c.reconcileAll()
	c.pause(false)
	c.reconcileAll()
	require.Equal(t, []string{"m1-create-1", "m2-create-1"}, c.jobs(), "a Job ended meanwhile, and who is paused keeps no place")

	c.delete(c.all[0].obj)
	c.all[0].reconcile()
	require.Len(t, c.jobs(), 2)
	c.all[0].expect(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.JobQueuedReason)
	c.all[1].fail(state.Create, 1, rkev1.ClassTransient, "a hiccup", false)
	c.all[1].reconcile()
	c.all[0].reconcile()
	require.Equal(t, []string{"m0-rm-1", "m2-create-1"}, c.jobs(), "a removal goes before creations")
}

// Whoever waits is woken by the end of a Job.
func TestWake_jobLimit(t *testing.T) {
	w := newWorld(t)
	w.limit = 1
	w.startManager(nil)
	first := w.machine("digitalocean", "first", droplet())
	first.awaitSaying(rkev1.CreateJobCondition, rkev1.JobRunningReason)
	second := w.machine("digitalocean", "second", droplet())
	second.awaitSaying(rkev1.CreateJobCondition, rkev1.JobQueuedReason)
	first.succeed(1)
	second.awaitSaying(rkev1.CreateJobCondition, rkev1.JobRunningReason)
}
