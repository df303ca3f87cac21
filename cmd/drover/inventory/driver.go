package inventory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// probeNamespace is where NodeDrivers are probed and their binaries cached: driver.CacheNamespace,
// whose package brings along more than a CLI needs.
const probeNamespace = "drover-drivers"

// DriverSnapshot reads everything about a NodeDriver.
func (a *API) DriverSnapshot(ctx context.Context, driver *v3.NodeDriver, now time.Time) *facts.DriverSnapshot {
	s := &facts.DriverSnapshot{Now: now, Driver: driver}
	read := func(err error) { s.Problems = appendProblem(s.Problems, err) }
	var err error
	s.Machines, err = a.machinesOfDriver(ctx, driver)
	read(err)
	s.Jobs, err = a.jobs(ctx, probeNamespace, labels.Set{rkev1.NodeDriverLabel: driver.DriverName(), rkev1.OperationLabel: string(state.Probe)}.String())
	read(err)
	if len(s.Jobs) > 0 {
		s.Pods, err = a.PodsOf(ctx, &s.Jobs[0])
		read(err)
	}
	s.Log, err = a.probeLog(ctx, driver, s.Pods)
	read(err)
	// Events of cluster-scoped objects are kept in the default namespace.
	events, err := a.eventsOf(ctx, metav1.NamespaceDefault, []types.UID{driver.UID})
	var uids []types.UID
	for _, pod := range s.Pods {
		uids = append(uids, pod.UID)
	}
	ofPods, podsErr := a.eventsOf(ctx, probeNamespace, uids)
	s.Events = append(events, ofPods...)
	sortEvents(s.Events)
	read(errors.Join(err, podsErr))
	return s
}

// machinesOfDriver counts the machines of a driver's kind; -1 when they cannot be counted.
func (a *API) machinesOfDriver(ctx context.Context, driver *v3.NodeDriver) (int, error) {
	kinds, err := a.Kinds(ctx)
	if err != nil {
		return -1, err
	}
	at := slices.IndexFunc(kinds, func(kind facts.Kind) bool { return kind.Name == driver.Status.MachineKind })
	if at < 0 {
		return 0, nil
	}
	machines, err := a.machinesOf(ctx, kinds[at], ListOptions{})
	if err != nil {
		return -1, err
	}
	return len(machines), nil
}

// probeLog is the saved log of the last probe, else the log of its pod.
func (a *API) probeLog(ctx context.Context, driver *v3.NodeDriver, pods []corev1.Pod) (string, error) {
	name := jobrunner.ObjectName("probe", driver.DriverName(), "result")
	secret, err := a.secret(ctx, probeNamespace, name)
	if kept := stateIn(secret).Log; kept != "" || len(pods) == 0 {
		return kept, err
	}
	pod := &pods[0]
	if pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "" || len(pod.Spec.Containers) == 0 {
		return "", err
	}
	log, logErr := a.endOfLog(ctx, pod)
	return log, errors.Join(err, logErr)
}

// logLines, logBytes and logTimeout limit the part that is read of a log that may still be written.
const (
	logLines   = 20
	logBytes   = 32 << 10
	logTimeout = 5 * time.Second
)

// endOfLog is the end of the log of a pod that has started.
func (a *API) endOfLog(ctx context.Context, pod *corev1.Pod) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	options := &corev1.PodLogOptions{Container: pod.Spec.Containers[0].Name, TailLines: new(int64(logLines)), LimitBytes: new(int64(logBytes))}
	// DoRaw would lose why the server refuses.
	stream, err := a.Kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	var log []byte
	if err == nil {
		defer func() { _ = stream.Close() }()
		log, err = io.ReadAll(io.LimitReader(stream, logBytes))
	}
	if err != nil {
		return "", fmt.Errorf("reading the log of pod %s: %w", pod.Name, err)
	}
	return string(log), nil
}
