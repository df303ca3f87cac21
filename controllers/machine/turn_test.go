package machine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/machine"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// crowd is a pool: machines of one template, and the one manager of them all.
type crowd struct {
	*world
	all []*subject
}

func newCrowd(t *testing.T, size int) *crowd {
	t.Helper()
	c := &crowd{world: newWorld(t)}
	for i := range size {
		c.all = append(c.all, c.machine("digitalocean", fmt.Sprintf("m%d", i), droplet()))
	}
	c.restart()
	return c
}

// restart gives all machines to a manager that knows nothing.
func (c *crowd) restart() {
	c.Helper()
	fields, err := fieldsOf("digitalocean")
	require.NoError(c, err)
	manager := c.manager()
	for _, s := range c.all {
		s.reconciler = manager.For(machine.Kind{GVK: rkev1.MachineGroupVersion.WithKind(crdgen.KindsOf("digitalocean").Machine), Driver: "digitalocean", Fields: fields})
	}
}

// reconcileAll lets the manager look at all of them, until there is nothing to do.
func (c *crowd) reconcileAll() {
	c.Helper()
	for range 2 {
		for _, s := range c.all {
			s.reconcile()
		}
	}
}

// jobs are the names of the Jobs that have not ended.
func (c *crowd) jobs() []string {
	c.Helper()
	list := &batchv1.JobList{}
	require.NoError(c, c.client.List(c.Context(), list, client.InNamespace(c.namespace)))
	names := []string{}
	for i := range list.Items {
		if !jobrunner.JobEnded(&list.Items[i]) && list.Items[i].DeletionTimestamp.IsZero() {
			names = append(names, list.Items[i].Name)
		}
	}
	return names
}

func (c *crowd) refuse(attempt int32, who ...*subject) {
	c.Helper()
	for _, s := range who {
		s.fail(state.Create, attempt, rkev1.ClassQuota, "this will exceed your droplet limit", false)
	}
}

func (c *crowd) pass(t time.Duration) { c.clock.SetTime(c.clock.Now().Add(t)) }

// TestTurn_pool: a pool of six meets a quota with three Jobs under way. From then on one asks at a time, nobody writes while
// nothing happens, and when there is room all have their servers soon.
func TestTurn_pool(t *testing.T) {
	c := newCrowd(t, 6)
	for _, s := range c.all[:3] {
		s.reconcile()
	}
	c.refuse(1, c.all[:3]...)
	c.reconcileAll()
	require.Empty(t, c.jobs(), "the other three do not even try")
	for _, s := range c.all[3:] {
		message := s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.WaitingForQuotaReason).Message
		require.Contains(t, message, "the cloud rejected machine m0, which retries for the same with the same credential (Quota)")
		require.Equal(t, message, s.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.WaitingForQuotaReason).Message)
		require.Equal(t, rkev1.PhasePending, s.read().Phase)
		testkit.ExpectNotFound(t, c.client, s.stateSecret())
	}
	for _, s := range c.all[:3] {
		require.Contains(t, s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.WaitingForRetryReason).Message, "droplet limit")
	}
	require.NotNil(t, c.all[0].read().NextAttemptTime)
	require.Nil(t, c.all[1].read().NextAttemptTime, "one asks next")

	clear(c.writes)
	c.events()
	c.pass(5 * time.Minute)
	c.reconcileAll()
	require.Zero(t, c.wrote(), "who waits writes nothing: %v", c.writes)
	require.Empty(t, c.events())

	c.pass(10 * time.Minute)
	c.reconcileAll()
	require.Equal(t, []string{"m0-create-2"}, c.jobs())
	clear(c.writes)
	c.all[1].reconcile()
	c.all[5].reconcile()
	require.Zero(t, c.wrote(), "%v", c.writes)
	c.refuse(2, c.all[0])
	c.reconcileAll()
	require.Empty(t, c.jobs())
	require.GreaterOrEqual(t, c.all[0].read().NextAttemptTime.Sub(c.clock.Now()), 20*time.Minute)

	c.pass(25 * time.Minute)
	c.reconcileAll()
	require.Equal(t, []string{"m0-create-3"}, c.jobs())
	c.all[0].succeed(3)
	c.reconcileAll()
	require.Equal(t, []string{"m1-create-2", "m2-create-2"}, c.jobs(), "at once, though their own back-off is not over")
	c.all[1].succeed(2)
	c.all[2].succeed(2)
	c.reconcileAll()
	require.Equal(t, []string{"m3-create-1", "m4-create-1", "m5-create-1"}, c.jobs())
	for _, s := range c.all[3:] {
		s.succeed(1)
	}
	c.reconcileAll()
	for _, s := range c.all {
		require.True(t, s.read().Ready, s.name)
	}
}

// As soon as the cloud has agreed the others follow; its bootstrap may take long.
func TestTurn_theCloudAgrees(t *testing.T) {
	c := newCrowd(t, 2)
	c.all[0].reconcile()
	c.refuse(1, c.all[0])
	c.reconcileAll()
	c.pass(15 * time.Minute)
	c.reconcileAll()
	c.all[0].write(map[string]any{state.JournalKey: state.Journal{Operation: state.Create, Attempt: 2, Phase: state.PhaseRecorded}})
	c.reconcileAll()
	require.Equal(t, []string{"m0-create-2"}, c.jobs(), "a record may be written before the cloud is asked")
	c.all[0].write(map[string]any{state.JournalKey: state.Journal{Operation: state.Create, Attempt: 2, Phase: state.PhaseCreated}})
	c.reconcileAll()
	require.Equal(t, []string{"m0-create-2", "m1-create-1"}, c.jobs())
}

// Whatever becomes of the machine that asks for all, another takes its place.
func TestTurn_whoAsksNextGoes(t *testing.T) {
	for name, leave := range map[string]func(*subject){
		"deleted": func(s *subject) { s.delete(s.obj) },
		"paused":  func(s *subject) { s.annotate("cluster.x-k8s.io/paused", "") },
		"asks for something else": func(s *subject) {
			s.read()
			require.NoError(s, unstructured.SetNestedField(s.obj.Object, "ams3", "spec", "region"))
			s.update(s.obj)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, 3)
			first := c.all[0]
			first.reconcile()
			c.refuse(1, first)
			c.reconcileAll()
			leave(first)
			testkit.ExpectReconciled(t, first.reconciler, first.obj)
			c.all = c.all[1:]
			c.reconcileAll()
			require.NotNil(t, c.all[0].read().NextAttemptTime)
			require.Contains(t, c.all[0].expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.WaitingForQuotaReason).Message,
				"the cloud rejected machine m0, which retried for the same with the same credential and has stopped (Quota). This machine retries next, at ")
			c.pass(15 * time.Minute)
			c.reconcileAll()
			require.Contains(t, c.jobs(), "m1-create-1")
			require.NotContains(t, c.jobs(), "m2-create-1")
		})
	}
}

// A machine that is made in place of a refused one does not begin anew, which would be a loop.
func TestTurn_replacedMachine(t *testing.T) {
	c := newCrowd(t, 2)
	first, second := c.all[0], c.all[1]
	first.reconcile()
	c.refuse(1, first)
	first.reconcile()
	first.delete(first.obj)
	first.reconcile()
	first.removed(1)
	testkit.ExpectReconciled(t, first.reconciler, first.obj)
	first.gone()
	second.reconcile()
	require.Empty(t, c.jobs())
	second.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.WaitingForQuotaReason)
}

// A cloud that has no room for a week is asked at the slowest pace, and a machine that waited so long needs nobody.
func TestTurn_neverGivesUp(t *testing.T) {
	c := newCrowd(t, 2)
	first := c.all[0]
	first.reconcile()
	for attempt := int32(1); attempt <= 20; attempt++ {
		c.refuse(attempt, first)
		first.reconcile()
		first.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.WaitingForRetryReason)
		c.pass(8 * time.Hour)
		first.reconcile()
		require.Equal(t, []string{fmt.Sprintf("m0-create-%d", attempt+1)}, c.jobs())
	}
	first.succeed(21)
	c.reconcileAll()
	require.Equal(t, []string{"m1-create-1"}, c.jobs())
}

// A manager that starts knows nothing: machines that wait go on waiting, whoever comes first, and nothing is written.
func TestTurn_restart(t *testing.T) {
	c := newCrowd(t, 4)
	c.all[2].reconcile()
	c.all[3].reconcile()
	c.refuse(1, c.all[2:]...)
	c.all[3].reconcile()
	c.reconcileAll()
	require.NotNil(t, c.all[3].read().NextAttemptTime)
	require.Contains(t, c.all[0].expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.WaitingForQuotaReason).Message, "the cloud rejected machine m3,")
	require.Equal(t, "m3", c.all[0].read().HeldBy)
	clear(c.writes)
	c.restart()
	c.reconcileAll()
	require.Zero(t, c.wrote(), "%v", c.writes)
	require.Empty(t, c.jobs())
	c.pass(15 * time.Minute)
	c.reconcileAll()
	require.Equal(t, []string{"m3-create-2"}, c.jobs())

	// Again, while it tries.
	c.restart()
	c.reconcileAll()
	require.Equal(t, []string{"m3-create-2"}, c.jobs())
}

// A new credential, or a user who asks, does not wait for the time that was waited for with the old one.
func TestTurn_somethingChanged(t *testing.T) {
	for name, change := range map[string]func(*crowd){
		"the credential":               func(c *crowd) { rotate("of-an-account-with-room")(c.all[0]) },
		"a machine that never tried":   func(c *crowd) { c.all[2].annotate(rkev1.RetryAnnotation, "1") },
		"a machine that was refused":   func(c *crowd) { c.all[1].annotate(rkev1.RetryAnnotation, "1") },
		"the machine that would be it": func(c *crowd) { c.all[0].annotate(rkev1.RetryAnnotation, "1") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, 4)
			c.all[0].reconcile()
			c.all[1].reconcile()
			c.refuse(1, c.all[:2]...)
			c.reconcileAll()
			require.Empty(t, c.jobs())
			change(c)
			c.reconcileAll()
			require.Len(t, c.jobs(), 1, "one of them, at once")
		})
	}
}

// Other failures are a machine's own, and hold nobody.
func TestTurn_otherFailures(t *testing.T) {
	for _, class := range []string{rkev1.ClassTransient, rkev1.ClassUnknown, rkev1.ClassInvalid} {
		c := newCrowd(t, 2)
		c.all[0].reconcile()
		c.all[0].fail(state.Create, 1, class, "no", false)
		c.reconcileAll()
		require.Equal(t, []string{"m1-create-1"}, c.jobs(), class)
	}
}

// Classes have reasons of their own, and each has its pace.
func TestTurn_classes(t *testing.T) {
	for class, reason := range map[string]string{rkev1.ClassQuota: rkev1.WaitingForQuotaReason,
		rkev1.ClassCapacity: rkev1.WaitingForCapacityReason, rkev1.ClassThrottled: rkev1.WaitingForRateLimitReason} {
		c := newCrowd(t, 2)
		c.all[0].reconcile()
		c.all[0].fail(state.Create, 1, class, "no", false)
		c.reconcileAll()
		c.all[1].expect(rkev1.CreateJobCondition, metav1.ConditionFalse, reason)
		c.restart()
		c.all[1].reconcile()
		c.all[1].expect(rkev1.CreateJobCondition, metav1.ConditionFalse, reason)
		require.Empty(t, c.jobs())
	}
}

// With a limit, machines say how many are ahead and write nothing while that changes little. A restart, a pause and a deletion keep to it.
func TestJobLimit(t *testing.T) {
	c := newCrowd(t, 6)
	c.limit, c.cache = 2, client.NewNamespacedClient(c.client, c.namespace) // other tests have Jobs too
	c.restart()
	c.reconcileAll()
	require.Equal(t, []string{"m0-create-1", "m1-create-1"}, c.jobs())
	for i, want := range []string{"this Job is the next", "1 machine is ahead of this machine", "2 machines are ahead of this machine", "3 machines are ahead of this machine"} {
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

	c.all[0].delete(c.all[0].obj)
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
