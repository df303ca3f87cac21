package inventory

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/jobrunner"
)

// Snapshot reads everything about a user's NAME. If no object has the NAME any more, the Snapshot
// holds its remains: events, state, owners.
func (a *API) Snapshot(ctx context.Context, target Target, namespace, name string, now time.Time) *facts.Snapshot {
	s := &facts.Snapshot{
		Now: now, Namespace: namespace, Name: name,
		Machine: target.Machine, CAPIMachine: target.CAPIMachine, MissingKind: target.MissingKind,
	}
	r := &reading{api: a, Snapshot: s}
	r.read(ctx, []part{
		{facts.OwnersPart, r.owners}, {facts.ClusterPart, r.cluster}, {facts.DriverPart, r.driver}, {facts.BootstrapPart, r.bootstrap},
		{facts.CredentialPart, r.credential}, {facts.StatePart, r.state}, {facts.JobsPart, r.jobs}, {facts.PodsPart, r.pods},
		{facts.AheadPart, r.ahead}, {facts.EventsPart, r.events}, {facts.LivePart, r.live},
		{facts.FailurePart, r.failure}, {facts.CleaningPart, r.cleaning},
	})
	return s
}

// part is how one part of a Snapshot is read.
type part struct {
	name facts.Part
	read func(context.Context) error
}

// reading fills a Snapshot; each method reads one part, in the order of Snapshot.
type reading struct {
	api *API
	*facts.Snapshot
}

// read reads parts. A part that cannot be read is reported and stays unknown.
func (r *reading) read(ctx context.Context, parts []part) {
	for _, p := range parts {
		if err := p.read(ctx); err != nil {
			// The admin of a namespace may not read NodeDrivers, and needs none of them for a
			// machine that exists.
			if p.name != facts.DriverPart || r.Machine == nil || !apierrors.IsForbidden(err) {
				r.Problems = append(r.Problems, Plain(err))
			}
			r.Unread = append(r.Unread, p.name)
		}
	}
}

// owners walks up from the CAPI Machine; without one it looks for other objects with the name.
func (r *reading) owners(ctx context.Context) error {
	if r.CAPIMachine == nil {
		if r.Machine != nil {
			return nil
		}
		// Users ask why a pool has no machine.
		return errors.Join(r.pool(ctx, "md"), r.pool(ctx, "ms"))
	}
	resources := map[string]schema.GroupVersionResource{"MachineSet": machineSets, "MachineDeployment": deployments}
	known := func(ref metav1.OwnerReference) bool {
		return resources[ref.Kind].Resource != "" && strings.HasPrefix(ref.APIVersion, clusterv1.GroupVersion.Group+"/")
	}
	for refs := r.CAPIMachine.OwnerReferences; len(r.Owners) < 4; {
		at := slices.IndexFunc(refs, known)
		if at < 0 {
			return nil
		}
		owner, err := r.object(ctx, resources[refs[at].Kind], refs[at].Name)
		if err != nil || owner == nil {
			return err
		}
		refs = owner.GetOwnerReferences()
	}
	return nil
}

// pool reads the MachineDeployment or MachineSet of the name, which word says, and its machines.
func (r *reading) pool(ctx context.Context, word string) error {
	label, resource := pools(word)
	owner, err := r.object(ctx, resource, r.Name)
	if owner == nil || err != nil || len(r.Machines) > 0 {
		return err
	}
	r.Machines, err = list(ctx, r.api, capiMachines, ListOptions{Namespace: r.Namespace, Selector: labels.Set{label: r.Name}.String()}, decode[clusterv1.Machine])
	return err
}

// object adds an object to the owners and returns it; nil when it does not exist.
func (r *reading) object(ctx context.Context, resource schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	u, err := r.api.object(ctx, resource, r.Namespace, name)
	if u != nil {
		r.Owners = append(r.Owners, facts.DecodeObject(u))
	}
	return u, err
}

func (r *reading) cluster(ctx context.Context) error {
	if r.ClusterName() == "" {
		return nil
	}
	cluster, err := get[clusterv1.Cluster](ctx, r.api, capiClusters, r.Namespace, r.ClusterName())
	if cluster == nil || err != nil {
		return err
	}
	r.Cluster = cluster
	controlPlane, err := r.api.named(ctx, r.Namespace, cluster.Spec.ControlPlaneRef)
	if controlPlane != nil {
		r.ControlPlane = new(facts.DecodeObject(controlPlane))
	}
	return err
}

func (r *reading) driver(ctx context.Context) error {
	kind := r.MissingKind
	if r.Machine != nil {
		kind = r.Machine.Kind.Name
	}
	if kind == "" {
		return nil
	}
	drivers, err := r.api.Drivers(ctx)
	if err != nil {
		return err
	}
	if r.Driver = facts.DriverOf(kind, drivers); r.Driver == nil {
		// The kind of a driver that is not ready is not known yet.
		r.Driver = facts.DriverNamed(facts.DriverName(kind, nil), drivers)
	}
	return nil
}

func (r *reading) bootstrap(ctx context.Context) (err error) {
	if r.CAPIMachine == nil || r.CAPIMachine.Spec.Bootstrap.DataSecretName == nil {
		return nil
	}
	r.Bootstrap, err = r.secret(ctx, r.Namespace, *r.CAPIMachine.Spec.Bootstrap.DataSecretName)
	return err
}

func (r *reading) credential(ctx context.Context) (err error) {
	if r.Machine == nil {
		return nil
	}
	ref := r.Machine.Credential()
	if ref.Name == "" {
		return nil
	}
	r.Credential, err = r.secret(ctx, ref.Namespace, ref.Name)
	return err
}

// secret reads whether a Secret exists and which keys it has; never its values.
func (r *reading) secret(ctx context.Context, namespace, name string) (*facts.Secret, error) {
	secret, err := r.api.secret(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	fact := &facts.Secret{Namespace: namespace, Name: name, Found: secret != nil}
	if secret != nil {
		fact.Keys = slices.Sorted(maps.Keys(secret.Data))
	}
	return fact, nil
}

func (r *reading) state(ctx context.Context) error {
	var known *facts.State
	var err error
	switch {
	case r.Machine != nil:
		known, err = r.api.State(ctx, r.Machine)
	case r.CAPIMachine != nil:
		ref := r.CAPIMachine.Spec.InfrastructureRef
		known, err = r.api.orphanedState(ctx, r.Namespace, ref.Name, ref.Kind)
	default:
		known, err = r.api.orphanedState(ctx, r.Namespace, r.Name, "")
	}
	if err != nil {
		return err
	}
	r.State = known
	r.Problems = append(r.Problems, known.Problems...)
	return nil
}

func (r *reading) jobs(ctx context.Context) (err error) {
	if r.Machine == nil {
		return nil
	}
	r.Jobs, err = r.api.jobs(ctx, r.Machine.Namespace, labels.Set{rkev1.MachineUIDLabel: string(r.Machine.UID)}.String())
	return err
}

func (r *reading) pods(ctx context.Context) (err error) {
	if len(r.Jobs) == 0 {
		return nil
	}
	r.Pods, err = r.api.PodsOf(ctx, &r.Jobs[0])
	return err
}

// live is the end of the log of a running Job's pod.
func (r *reading) live(ctx context.Context) (err error) {
	if len(r.Jobs) == 0 || len(r.Pods) == 0 || jobrunner.JobEnded(&r.Jobs[0]) || r.Pods[0].Status.Phase != corev1.PodRunning || len(r.Pods[0].Spec.Containers) == 0 {
		return nil
	}
	r.Live, err = r.api.endOfLog(ctx, &r.Pods[0])
	return err
}

func (r *reading) failure(ctx context.Context) (err error) {
	if r.CAPIMachine != nil {
		r.Failure, err = r.api.failure(ctx, r.CAPIMachine)
	}
	return err
}

// cleaning reads the progress of the agent that cleans its host by plan, if this was requested.
func (r *reading) cleaning(ctx context.Context) error {
	if r.Machine == nil || r.CAPIMachine == nil || r.Machine.Annotations[rkev1.CleanByPlanAnnotation] == "" {
		return nil
	}
	secret, err := r.api.PlanSecret(ctx, r.CAPIMachine)
	if errors.Is(err, errNoPlanSecret) {
		return nil
	}
	if err != nil || secret.Annotations[rkev1.CleansAnnotation] == "" {
		return err
	}
	status, err := plan.DecodeAgentStatus(secret.Data[plan.KeyAgentStatus])
	if err != nil {
		return err
	}
	seen, _ := time.Parse(time.RFC3339, secret.Annotations[rkev1.AgentSeenAnnotation])
	r.Cleaning = &facts.Cleaning{State: string(secret.Data[plan.KeyState]), Running: status.Running, AgentSeen: seen}
	return nil
}

// ahead gets the machine for whose refusal another waits.
func (r *reading) ahead(ctx context.Context) (err error) {
	if r.Machine != nil && r.Machine.Status.HeldBy != "" {
		r.Ahead, err = r.api.Machine(ctx, r.Machine.Kind, r.Namespace, r.Machine.Status.HeldBy)
	}
	return err
}

func (r *reading) events(ctx context.Context) error {
	var uids []types.UID
	if r.Machine != nil {
		uids = append(uids, r.Machine.UID)
	}
	if r.CAPIMachine != nil {
		uids = append(uids, r.CAPIMachine.UID)
	}
	if len(r.Jobs) > 0 {
		uids = append(uids, r.Jobs[0].UID)
	}
	for _, pod := range r.Pods {
		uids = append(uids, pod.UID)
	}
	var err error
	if len(uids) > 0 {
		r.Events, err = r.api.eventsOf(ctx, r.Namespace, uids)
		return err
	}
	r.Events, err = r.api.events(ctx, r.Namespace, "involvedObject.name", r.Name)
	// Objects of other kinds may have the same name.
	r.Events = slices.DeleteFunc(r.Events, func(e corev1.Event) bool {
		group, _, _ := strings.Cut(e.InvolvedObject.APIVersion, "/")
		return group != rkev1.MachineGroupVersion.Group && group != clusterv1.GroupVersion.Group
	})
	sortEvents(r.Events)
	return err
}

// Attempts reads the state and the Jobs of a machine: its attempts and their logs.
func (a *API) Attempts(ctx context.Context, m *facts.Machine) *facts.Snapshot {
	s := &facts.Snapshot{Namespace: m.Namespace, Name: m.Name, Machine: m}
	r := &reading{api: a, Snapshot: s}
	r.read(ctx, []part{{facts.StatePart, r.state}, {facts.JobsPart, r.jobs}})
	return s
}
