package serverscan

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/controllers/attempt"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/limit/fairqueue"
	"github.com/drover-project/drover/state"
)

// FieldOwner of everything this controller applies.
const FieldOwner = "drover-serverscan"

// +kubebuilder:rbac:groups=rke.cattle.io,resources=serverscans,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=rke.cattle.io,resources=serverscans/status,verbs=patch
// Permission for owner references that block deletion; an API server with the plugin
// OwnerReferencesPermissionEnforcement requires it.
// +kubebuilder:rbac:groups=rke.cattle.io,resources=serverscans/finalizers,verbs=update
// +kubebuilder:rbac:groups=rke-machine.cattle.io,resources=*,verbs=get;list;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=list
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups="",resources=secrets;serviceaccounts,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;create;patch;delete

const (
	// DefaultGrace is the minimum age of a removed orphan, unless the ServerScan sets another.
	DefaultGrace = time.Hour
	// DefaultTTL is how long a ServerScan stays after its end, unless it sets another time.
	DefaultTTL = time.Hour
	// jobCheck is a safety net: the end of a Job is seen by watch.
	jobCheck = time.Minute
	// certainFor is how long after the read of the API the second Job may start removals.
	certainFor = 10 * time.Minute
	// leftoverCheck is the interval between checks whether the garbage collector has finished.
	leftoverCheck = 5 * time.Second
)

// Options of a Reconciler.
type Options struct {
	// Client writes.
	Client client.Client
	// Reader reads live.
	Reader client.Reader
	// Jobs are the settings of the Jobs.
	Jobs jobrunner.Settings
	// TrustedCredentialNamespaces are the same as for machines.
	TrustedCredentialNamespaces []string
	// Management is the UID of the namespace kube-system, a value of the machines' server tags;
	// empty if unknown.
	Management string
	// Clock is the real one by default.
	Clock clock.PassiveClock
}

// Reconciler reconciles ServerScans.
type Reconciler struct {
	Options
	runner attempt.Runner
}

// New makes a Reconciler.
func New(o Options) *Reconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Reconciler{Options: o, runner: attempt.Runner{Applier: apply.Applier{Client: o.Client, Reader: o.Reader, Owner: FieldOwner}, Settings: o.Jobs}}
}

// workers is how many ServerScans are reconciled at a time; namespaces take turns.
const workers = 4

// Register adds the controller to a manager.
func (r *Reconciler) Register(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("serverscan").For(&rkev1.ServerScan{}).Owns(&batchv1.Job{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: fairqueue.New(workers)}).Complete(r)
	if err != nil {
		return fmt.Errorf("adding the serverscan controller: %w", err)
	}
	// Only the leading manager exports these metrics: all replicas would export the same values. A
	// second manager in one process, as in tests, exports none.
	return mgr.Add(manager.RunnableFunc(func(context.Context) error {
		err := metrics.Registry.Register(newFindings(r.Client))
		if _, again := errors.AsType[prometheus.AlreadyRegisteredError](err); err != nil && !again {
			return fmt.Errorf("registering the metrics of ServerScans: %w", err)
		}
		return nil
	}))
}

// scope is one reconcile.
type scope struct {
	*rkev1.ServerScan
	conditions *step.Conditions
	now        time.Time
}

// Reconcile brings one ServerScan forward.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	scan := &rkev1.ServerScan{}
	// Live: a stale one would restore the deleted Secret with the credential.
	err := r.Reader.Get(ctx, request.NamespacedName, scan)
	if apierrors.IsNotFound(err) || err == nil && !scan.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the ServerScan: %w", err)
	}
	now := r.Clock.Now()
	if ended := endOf(scan); !ended.IsZero() {
		return r.expire(ctx, scan, now.Sub(ended))
	}
	before := scan.DeepCopy()
	s := &scope{ServerScan: scan, now: now, conditions: step.NewConditions(&scan.Status.Conditions, scan.Generation, now)}
	err = step.Run(ctx, s, s.conditions, step.Of(rkev1.ScanDoneCondition, rkev1.ScannedReason, r.scan))
	if err == nil {
		s.conditions.True(rkev1.ScanDoneCondition, rkev1.ScannedReason, fmt.Sprintf("servers with a machine: %d, orphans: %d", scan.Status.Known, scan.Status.Orphans))
	}
	if _, stalled := errors.AsType[*step.Stalled](err); stalled || err == nil {
		// It is not done before the credential is gone.
		if failed := r.cleanUp(ctx, scan); failed != nil {
			return reconcile.Result{}, failed
		}
		scan.Status.CompletionTime = &metav1.Time{Time: now}
	}
	if _, patchErr := step.PatchStatus(ctx, r.Client, before, scan); patchErr != nil {
		return reconcile.Result{}, patchErr
	}
	return step.Result(err)
}

// expire deletes a ServerScan some time after its end, so that users can read it. A periodic
// ServerScan with open findings stays until the cloud has answered the next one: otherwise the
// findings would be lost while the cloud does not answer, or after the manager was down.
func (r *Reconciler) expire(ctx context.Context, scan *rkev1.ServerScan, age time.Duration) (reconcile.Result, error) {
	ttl := time.Duration(ptr.Deref(scan.Spec.TTLSecondsAfterFinished, int32(DefaultTTL.Seconds()))) * time.Second
	if left := ttl - age; left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if periodic(scan) && unsettled(scan) {
		list := &rkev1.ServerScanList{}
		if err := r.Reader.List(ctx, list, client.InNamespace(scan.Namespace)); err != nil {
			return reconcile.Result{}, fmt.Errorf("listing ServerScans: %w", err)
		}
		if last := newest(list.Items, periodic, succeeded)[accountOf(scan)]; last != nil && last.UID == scan.UID {
			return reconcile.Result{RequeueAfter: max(ttl, DefaultTTL)}, nil
		}
	}
	err := r.Client.Delete(ctx, scan, client.Preconditions{UID: &scan.UID})
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// phase of a ServerScan: its current Job. The numbers are the values of status.attempt.
type phase int32

const (
	notBegun phase = iota
	looking
	removing
)

// action is the action of a phase.
type action string

const (
	begin         action = "make the Job that looks"
	makeRemoval   action = "make the Job that removes, if there is still something to remove"
	awaitJob      action = "wait for the Job"
	giveUp        action = "say how the Job failed"
	refuseVersion action = "say that the Job has left no report"
	conclude      action = "judge by the Job's report"
)

// next chooses the action. listed is true if the first Job's report exists, reported if this
// phase's report exists. The status records the phase removing before the second Job is created, so
// that no reconcile mistakes its outcome for the first Job's.
//
//	looking: list ──▶ verdicts ──remove, and orphans──▶ verdicts again ──▶ removing: list again, remove ──▶ done
//	                     └──────────────▶ done              └──none left──▶ done
func next(p phase, seen attempt.State, listed, reported bool) action {
	switch {
	case p == notBegun:
		return begin
	case p == removing && seen == attempt.Claimed && listed:
		return makeRemoval
	case seen == attempt.Running:
		return awaitJob
	case seen == attempt.Succeeded && reported:
		return conclude
	case seen == attempt.Succeeded:
		return refuseVersion
	}
	return giveUp // also if the Job existed and was deleted
}

// scan starts the Job of the phase, or reads its outcome.
func (r *Reconciler) scan(ctx context.Context, s *scope) error {
	seen, err := r.observe(ctx, s)
	if err != nil {
		return err
	}
	var listed *state.ScanReport
	if first := seen.Evidence.State.Result; first.IsRead() && first.Value.Attempt == int32(looking) {
		listed = first.Value.Scan
	}
	verdict := seen.Verdict
	report := ptr.Deref(verdict.Result, state.Result{}).Scan
	switch next(phase(s.Status.Attempt), seen.State, listed != nil, report != nil) {
	case begin:
		s.Status.Attempt = int32(looking)
		if err := r.start(ctx, s, nil); err != nil {
			s.Status.Attempt = int32(notBegun) // as long as that fails nothing has begun
			return err
		}
		return r.asking(s, "")
	case makeRemoval:
		// Read the API again: a server that has a machine by now stays.
		_, targets, err := r.judge(ctx, s, *listed)
		if err != nil || len(targets) == 0 {
			return err
		}
		if err := r.start(ctx, s, targets); err != nil {
			return err
		}
		return r.asking(s, "")
	case awaitJob:
		return r.asking(s, verdict.Message)
	case refuseVersion:
		return step.Stall(rkev1.ScanResultInvalidReason, errors.New("the Job succeeded without a report: the machine binary in the image has another version than the manager"))
	case conclude:
		return r.conclude(ctx, s, *report)
	case giveUp:
	}
	return r.failed(ctx, s, verdict, report)
}

// failed ends a ServerScan whose Job has failed. It still reports the servers that the Job has
// removed.
func (r *Reconciler) failed(ctx context.Context, s *scope, verdict jobrunner.Verdict, report *state.ScanReport) error {
	if report != nil {
		if _, _, err := r.judge(ctx, s, *report); err != nil {
			return err
		}
	}
	what := "the cloud could not be queried"
	if phase(s.Status.Attempt) == removing {
		what = "not all orphans were removed"
	}
	return step.Stall(rkev1.ScanJobReason, fmt.Errorf("%s (%s, %s): %s", what, verdict.Class, verdict.Reason, verdict.Message))
}

// conclude writes the verdicts, and starts the phase removing if there is something to remove.
func (r *Reconciler) conclude(ctx context.Context, s *scope, report state.ScanReport) error {
	known, targets, err := r.judge(ctx, s, report)
	if err != nil {
		return err
	}
	if err := r.reportMachines(ctx, s.ServerScan, known, report); err != nil {
		return err
	}
	if s.Spec.Remove && phase(s.Status.Attempt) == looking && len(targets) > 0 {
		s.Status.Attempt = int32(removing)
		return step.Progress(rkev1.RemovingReason, fmt.Sprintf("orphans to be removed: %d", len(targets)), jobCheck)
	}
	return nil
}

// judge reads the API after the cloud has answered, and puts the verdicts into the status.
func (r *Reconciler) judge(ctx context.Context, s *scope, report state.ScanReport) (knowledge, []jobrunner.ScanTarget, error) {
	known, err := r.know(ctx, s.ServerScan)
	if err != nil {
		return known, nil, fmt.Errorf("finding servers that have machines: %w", err)
	}
	found, targets := known.judge(report, s.now, graceOf(s.ServerScan))
	s.Status.Known, s.Status.Orphans, s.Status.Servers, s.Status.MachinesNotListed = found.Known, found.Orphans, found.Servers, found.MachinesNotListed
	return known, targets, nil
}

func graceOf(scan *rkev1.ServerScan) time.Duration {
	return max(ptr.Deref(scan.Spec.GracePeriod, metav1.Duration{Duration: DefaultGrace}).Duration, 0)
}
