package inventory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// probeNamespace is where NodeDrivers are probed and their binaries cached: driver.CacheNamespace, whose package brings
// along more than a CLI needs.
const probeNamespace = "drover-drivers"

// DriverSnapshot reads everything about a NodeDriver.
func (a *API) DriverSnapshot(ctx context.Context, driver *v3.NodeDriver, now time.Time) *facts.DriverSnapshot {
	s := &facts.DriverSnapshot{Now: now, Driver: driver, Machines: -1}
	r := &driverReading{api: a, DriverSnapshot: s}
	for _, read := range []func(context.Context) error{r.machines, r.jobs, r.pods, r.log, r.events} {
		if err := read(ctx); err != nil {
			s.Problems = append(s.Problems, Plain(err))
		}
	}
	return s
}

type driverReading struct {
	api *API
	*facts.DriverSnapshot
}

func (r *driverReading) machines(ctx context.Context) error {
	kinds, err := r.api.Kinds(ctx)
	if err != nil {
		return err
	}
	r.Machines = 0
	for _, kind := range kinds {
		if kind.Name != r.Driver.Status.MachineKind {
			continue
		}
		machines, err := r.api.machinesOf(ctx, kind, ListOptions{})
		if err != nil {
			r.Machines = -1
			return err
		}
		r.Machines = len(machines)
	}
	return nil
}

func (r *driverReading) jobs(ctx context.Context) error {
	var err error
	r.Jobs, err = r.api.jobs(ctx, probeNamespace, labels.Set{
		rkev1.NodeDriverLabel: r.Driver.DriverName(), rkev1.OperationLabel: string(state.Probe),
	})
	return err
}

func (r *driverReading) pods(ctx context.Context) error {
	if len(r.Jobs) == 0 {
		return nil
	}
	var err error
	r.Pods, err = r.api.PodsOf(ctx, &r.Jobs[0])
	return err
}

// log is the kept log of the last probe, else what its pod still has.
func (r *driverReading) log(ctx context.Context) error {
	name := jobrunner.ObjectName("probe", r.Driver.DriverName(), "result")
	secret, err := r.api.Kube.CoreV1().Secrets(probeNamespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		r.Log = facts.ParseState(name, secret.Data).Log
	case !apierrors.IsNotFound(err):
		err = fmt.Errorf("getting Secret %s/%s: %w", probeNamespace, name, err)
	default:
		err = nil
	}
	if r.Log != "" || len(r.Pods) == 0 {
		return err
	}
	return errors.Join(err, r.podLog(ctx, &r.Pods[0]))
}

func (r *driverReading) podLog(ctx context.Context, pod *corev1.Pod) error {
	if pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "" || len(pod.Spec.Containers) == 0 {
		return nil
	}
	options := &corev1.PodLogOptions{TailLines: new(int64(20)), Container: pod.Spec.Containers[0].Name}
	// DoRaw would lose why the server refuses.
	stream, err := r.api.Kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		return fmt.Errorf("reading the log of pod %s: %w", pod.Name, err)
	}
	defer func() { _ = stream.Close() }()
	log, err := io.ReadAll(io.LimitReader(stream, state.MaxLogBytes))
	if err != nil {
		return fmt.Errorf("reading the log of pod %s: %w", pod.Name, err)
	}
	r.Log = string(log)
	return nil
}

func (r *driverReading) events(ctx context.Context) error {
	// Events of cluster-scoped objects are kept in the default namespace.
	events, err := r.api.eventsOf(ctx, metav1.NamespaceDefault, []types.UID{r.Driver.UID})
	var uids []types.UID
	for _, pod := range r.Pods {
		uids = append(uids, pod.UID)
	}
	ofPods, podsErr := r.api.eventsOf(ctx, probeNamespace, uids)
	r.Events = append(events, ofPods...)
	sortEvents(r.Events)
	return errors.Join(err, podsErr)
}
