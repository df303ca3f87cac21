package explain_test

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/advice"
	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/explain"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/state"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// condition is one condition that changed some minutes ago.
func condition(name string, status metav1.ConditionStatus, reason, message string, minutes int) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, Reason: reason, Message: message, LastTransitionTime: ago(time.Duration(minutes) * time.Minute)}
}

func done(name, reason string, minutes int) metav1.Condition {
	return condition(name, metav1.ConditionTrue, reason, "", minutes)
}

// explained explains a machine whose conditions carry the advice that the manager writes into them.
func explained(s *facts.Snapshot, command string) *explain.Report {
	if s.Machine == nil {
		return explain.Machine(s, command)
	}
	about := explain.About(s)
	for i := range s.Machine.Status.Conditions {
		c := &s.Machine.Status.Conditions[i]
		what, _ := advice.Split(c.Message)
		var last *advice.Attempt
		if known := s.Machine.Status.LastAttempt; known != nil && known.Outcome == string(state.Failed) {
			last = &advice.Attempt{Class: known.Class, Removes: known.Operation == string(state.Remove)}
			if s.State != nil && s.State.Result != nil {
				last.Reason = s.State.Result.Reason
			}
		}
		c.Message = advice.Message(what, about.On(*c, last))
	}
	return explain.Machine(s, command)
}

// explainedDriver is the same of a driver.
func explainedDriver(s *facts.DriverSnapshot, command string) *explain.Report {
	about := advice.Driver{Name: s.Driver.Name, URL: facts.ShownURL(s.Driver.Spec.URL)}
	if len(s.Jobs) > 0 {
		about.Job = s.Jobs[0].Name
	}
	for i := range s.Driver.Status.Conditions {
		c := &s.Driver.Status.Conditions[i]
		what, _ := advice.Split(c.Message)
		c.Message = advice.Message(what, about.On(c.Reason))
	}
	return explain.Driver(s, command)
}

// machine is web-1 in namespace shop, created a quarter of an hour ago, with all that belongs to it up to the credential.
func machine(conditions ...metav1.Condition) *facts.Snapshot {
	m := &facts.Machine{
		Kind: facts.Kind{Name: "DigitaloceanMachine", Resource: "digitaloceanmachines", Singular: "digitaloceanmachine"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-1", UID: "uid-m", CreationTimestamp: ago(15 * time.Minute),
			Labels:      map[string]string{clusterv1.ClusterNameLabel: "store", rkev1.CAPIMachineLabel: "web-1"},
			Annotations: map[string]string{clusterv1.TemplateClonedFromNameAnnotation: "web"},
			Finalizers:  []string{rkev1.MachineFinalizer},
		},
		Spec:   facts.MachineSpec{Common: rkev1.RKECommonNodeConfig{CloudCredentialSecretName: "do-token"}},
		Status: rkev1.RKEMachineStatus{Phase: rkev1.PhasePending, Conditions: conditions, InstanceName: "web-1"},
	}
	secretName := "web-1-bootstrap"
	capi := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "uid-c"}}
	capi.Spec.ClusterName, capi.Status.Phase = "store", "Provisioning"
	capi.Spec.Bootstrap.DataSecretName = &secretName
	capi.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "rke-machine.cattle.io", Kind: "DigitaloceanMachine", Name: "web-1"}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "store"}}
	cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	return &facts.Snapshot{
		Now: now, Namespace: "shop", Name: "web-1", Machine: m, CAPIMachine: capi, Cluster: cluster, Driver: driver(true, done(v3.ReadyCondition, v3.ReadyReason, 90)),
		Owners:     []facts.Object{{Kind: "MachineSet", Name: "web-x2", Replicas: 3, ReadyReplicas: 1}, {Kind: "MachineDeployment", Name: "web", Phase: "ScalingUp", Replicas: 3, ReadyReplicas: 1}},
		Bootstrap:  &facts.Secret{Namespace: "shop", Name: secretName, Found: true, Keys: []string{"format", "value"}},
		Credential: &facts.Secret{Namespace: "shop", Name: "do-token", Found: true, Keys: []string{"accessToken"}},
		State:      &facts.State{},
	}
}

// atJob is a machine whose first four steps are done.
func atJob(status metav1.ConditionStatus, reason, message string) *facts.Snapshot {
	s := machine(
		done(rkev1.ClusterReadyCondition, rkev1.ClusterReadyReason, 14), done(rkev1.DriverReadyCondition, rkev1.DriverReadyReason, 14),
		done(rkev1.BootstrapReadyCondition, rkev1.BootstrapReadyReason, 13), done(rkev1.CredentialReadyCondition, rkev1.CredentialReadyReason, 13),
		condition(rkev1.CreateJobCondition, status, reason, message, 12),
		condition(rkev1.ReadyCondition, metav1.ConditionFalse, reason, message, 12),
	)
	s.Machine.Status.Phase = rkev1.PhaseCreating
	s.Machine.Status.JobName = "web-1-create-2"
	return s
}

// withJob adds a running Job and, unless nil, its pod.
func withJob(s *facts.Snapshot, pod *corev1.Pod) *facts.Snapshot {
	s.Jobs = []batchv1.Job{{ObjectMeta: metav1.ObjectMeta{Name: "web-1-create-2", UID: "uid-j"}}}
	if pod != nil {
		pod.Name, pod.UID = "web-1-create-2-abcde", "uid-p"
		s.Pods = []corev1.Pod{*pod}
	}
	return s
}

func waitingPod(reason, message string) *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "machine", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}}}
}

func event(uid types.UID, object, reason, message string, minutes int) corev1.Event {
	kind := "Job"
	if uid == "uid-m" {
		kind = "DigitaloceanMachine"
	}
	return corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: kind, Name: object, UID: uid}, Type: corev1.EventTypeWarning,
		Reason: reason, Message: message, Count: 3, LastTimestamp: ago(time.Duration(minutes) * time.Minute),
	}
}

// failed is a machine whose last attempt failed.
func failed(reason, class, message string) *facts.Snapshot {
	says := fmt.Sprintf("attempt 2 failed (%s, CreateFailed): %s. %s", class, message, advice.Machine{}.Explain(advice.Attempt{Class: class, Reason: rkev1.CreateFailedReason}))
	if reason == rkev1.AttemptsExhaustedReason {
		says += ". The manager makes no further attempt until the machine, its credential, its bootstrap data, its NodeDriver or the manager's settings (proxy, CA, image) change, or the annotation " +
			rkev1.RetryAnnotation + " gets a new value"
	}
	s := atJob(metav1.ConditionFalse, reason, says)
	started, finished := ago(5*time.Minute), ago(3*time.Minute)
	s.Machine.Status.Attempts = 2
	s.Machine.Status.LastAttempt = &rkev1.AttemptStatus{
		Operation: "create", Number: 2, StartTime: &started, EndTime: &finished, Outcome: "Failed", Class: class, Message: message, LogTail: "the tail",
	}
	s.State = &facts.State{
		Name: "web-1-machine-state", Log: "Running pre-create checks...\nCreating machine...\n\tError: " + message + "\n", ServerMayExist: true,
		Journal: &state.Journal{Operation: state.Create, Attempt: 2, Phase: state.PhaseIntent, InstanceName: "web-1"},
		Result:  &state.Result{Operation: state.Create, Attempt: 2, Outcome: state.Failed, Reason: "CreateFailed", Class: class},
	}
	return s
}

func running() *facts.Snapshot {
	s := atJob(metav1.ConditionTrue, rkev1.JobSucceededReason, "")
	m := s.Machine
	m.Status.Conditions = append(m.Status.Conditions[:5], done(rkev1.StateStoredCondition, rkev1.StateStoredReason, 9),
		done(rkev1.ProviderIDKnownCondition, rkev1.ProviderIDSetReason, 9), done(rkev1.ReadyCondition, rkev1.ReadyReason, 9))
	m.Status.Phase, m.Status.Ready, m.Spec.ProviderID = rkev1.PhaseRunning, true, "digitalocean://4711"
	m.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineExternalIP, Address: "198.18.0.11"}}
	s.State = &facts.State{
		Name: "web-1-machine-state", Journal: &state.Journal{Operation: state.Create, Attempt: 1, Phase: state.PhaseBootstrapped},
		Server: &state.Server{InstanceID: "4711"}, ServerMayExist: true,
	}
	return s
}

func deleting(conditions ...metav1.Condition) *facts.Snapshot {
	s := running()
	since := ago(4 * time.Minute)
	s.Machine.DeletionTimestamp = &since
	s.Machine.Status.Phase = rkev1.PhaseDeleting
	s.Machine.Status.Conditions = append(s.Machine.Status.Conditions[:7], conditions...)
	return s
}

func driver(active bool, conditions ...metav1.Condition) *v3.NodeDriver {
	d := &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "digitalocean", CreationTimestamp: ago(2 * time.Hour)}}
	d.Spec.URL, d.Spec.Active, d.Spec.Builtin = "local://", active, true
	d.Status.Conditions = conditions
	d.Status.MachineKind, d.Status.Fields = "DigitaloceanMachine", 14
	return d
}

func external(conditions ...metav1.Condition) *facts.DriverSnapshot {
	d := driver(true, conditions...)
	d.Name, d.Spec.URL, d.Spec.Builtin = "mycloud", "https://drivers.example/docker-machine-driver-mycloud", false
	d.Status.MachineKind, d.Status.Fields, d.Status.ProbeAttempts = "", 0, 2
	return &facts.DriverSnapshot{Now: now, Driver: d}
}
