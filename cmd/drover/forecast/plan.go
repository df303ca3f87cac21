package forecast

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/planner"
	"github.com/drover-project/drover/provisioning"
	"github.com/drover-project/drover/releases"
)

// Sources are the objects that a plan is about. None of them is a Secret.
type Sources struct {
	// Stored is the provisioning Cluster in the API; nil if it does not exist.
	Stored *provv1.Cluster
	// Input has the Cluster and the Configs as they will be, and the other objects as they are.
	Input provisioning.Input
	// CAPI and ControlPlane are the rendered objects; nil before the first rendering.
	CAPI         *clusterv1.Cluster
	ControlPlane *rkev1.RKEControlPlane
	// Machines are the CAPI Machines of the Cluster.
	Machines []clusterv1.Machine
	// Releases is the catalogue of releases that this program knows.
	Releases *releases.Catalogue
	// Admission is the answer of the API server.
	Admission Admission
	// Notes are sentences about parts that could not be read.
	Notes []string
}

// Kinds of changes. A plan has the largest of its changes.
const (
	// None: nothing changes.
	None = "none"
	// InPlace: machines are created, restarted or updated, and none is replaced or deleted.
	InPlace = "inPlace"
	// Replace: machines are replaced or deleted.
	Replace = "replace"
)

// Plan is what happens to a cluster.
type Plan struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Created: the Cluster does not exist yet.
	Created bool `json:"created,omitempty"`
	// Change is one of the constants above.
	Change string `json:"change"`
	// Paused: the changes wait while the Cluster is paused.
	Paused bool `json:"paused,omitempty"`
	// Pools are the pools whose number of machines changes, or whose machines are replaced.
	Pools []Pool `json:"pools,omitempty"`
	// Configuration are the effects of each changed field of the machines' configuration, below
	// spec.rkeConfig or spec.
	Configuration []planner.Effect `json:"configuration,omitempty"`
	// Restarted and Updated are the machines that the configuration changes, as in planner.Effect.
	Restarted []string `json:"restarted,omitempty"`
	Updated   []string `json:"updated,omitempty"`
	// Unknown says why the effects of the configuration are not known; empty otherwise.
	Unknown string `json:"unknown,omitempty"`
	// Turns are the groups in which machines get their configuration, in their order.
	Turns []Turn `json:"turns,omitempty"`
	// Settings are the other changed fields.
	Settings []provisioning.Change `json:"settings,omitempty"`
	// Held are the parts that do not happen.
	Held []Held `json:"held,omitempty"`
	// PendingReplacement are the replacements that wait for an approval.
	PendingReplacement *provv1.PendingReplacement `json:"pendingReplacement,omitempty"`
	// NotActedOn are the fields that have no effect, below spec.
	NotActedOn []string `json:"notActedOn,omitempty"`
	// Admission is the answer of the API server.
	Admission Admission `json:"admission"`
	// Notes are sentences about parts that could not be read.
	Notes []string `json:"notes,omitempty"`
}

// Pool is what happens to the machines of a pool.
type Pool struct {
	Name     string `json:"name"`
	Made     int32  `json:"made,omitempty"`
	Removed  int32  `json:"removed,omitempty"`
	Replaced int32  `json:"replaced,omitempty"`
	// Changes are the options of the Config that replace machines.
	Changes []string `json:"changes,omitempty"`
	// NeedsApproval and Paused: the machines are replaced only after an approval, or when the pool is
	// no longer paused.
	NeedsApproval bool `json:"needsApproval,omitempty"`
	Paused        bool `json:"paused,omitempty"`
	// Surge and Unavailable are how many machines more or fewer there are during a replacement: a
	// number or a percentage.
	Surge       string `json:"surge,omitempty"`
	Unavailable string `json:"unavailable,omitempty"`

	text string
}

// Turn is a group of machines that change before the next group.
type Turn struct {
	// Machines are "server" or "workers".
	Machines string `json:"machines"`
	// AtATime is how many change at a time: a number, a percentage, or 0 for all.
	AtATime string `json:"atATime"`
}

// Held is a part of a Cluster that is not carried out.
type Held struct {
	Pool    string `json:"pool,omitempty"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Next is the next step of the user.
	Next string `json:"next,omitempty"`
}

// Admission is the API server's answer to a dry run of the change.
type Admission struct {
	// Checked is false if the API server was not asked. NotChecked says why; it is empty for a plan
	// of stored objects, which were accepted.
	Checked    bool   `json:"checked"`
	NotChecked string `json:"notChecked,omitempty"`
	// Rejected is the error of the API server; empty if it accepts the change.
	Rejected string   `json:"rejected,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// New computes the plan. It fails if an object cannot be encoded.
func New(s Sources) (*Plan, error) {
	cluster := s.Input.Cluster
	plan := &Plan{Namespace: cluster.Namespace, Name: cluster.Name, Created: s.Stored == nil, Change: None, Admission: s.Admission, Notes: s.Notes,
		NotActedOn: provisioning.NotActedOn(cluster), Paused: isPaused(s)}
	if held := notRendered(cluster); held != "" {
		plan.Notes = append(plan.Notes, held)
		return plan, nil
	}
	effects, rendered, err := provisioning.Preview(s.Input)
	if err != nil {
		return nil, err
	}
	for _, effect := range effects {
		plan.Pools = append(plan.Pools, poolOf(cluster, effect))
	}
	plan.PendingReplacement = rendered.Pending
	for _, finding := range rendered.Findings {
		plan.Held = append(plan.Held, Held(finding))
	}
	plan.configure(s, rendered)
	if s.Stored != nil && s.Stored.Spec.RKEConfig != nil {
		if plan.Settings, err = provisioning.Changes(s.Stored, cluster); err != nil {
			return nil, err
		}
	}
	plan.Change = plan.change()
	return plan, nil
}

// notRendered returns why nothing is rendered for a Cluster; empty for most.
func notRendered(cluster *provv1.Cluster) string {
	switch config := cluster.Spec.RKEConfig; {
	case config == nil:
		return "The Cluster has no rkeConfig, so Drover renders nothing for it"
	case config.InfrastructureRef != nil:
		return "The Cluster has an infrastructureRef, so Drover renders nothing for it"
	}
	return ""
}

func isPaused(s Sources) bool {
	_, annotated := s.Input.Cluster.Annotations[clusterv1.PausedAnnotation]
	return annotated || s.CAPI != nil && ptr.Deref(s.CAPI.Spec.Paused, false)
}

func poolOf(cluster *provv1.Cluster, effect provisioning.Effect) Pool {
	pool := Pool{Name: effect.Pool, Made: effect.Made, Removed: effect.Removed, Replaced: effect.Replaced, Changes: effect.Changes,
		NeedsApproval: effect.Waits, Paused: effect.Paused, text: effect.String()}
	if effect.Replaced == 0 {
		return pool
	}
	pool.Surge, pool.Unavailable = "1", "0" // Cluster API's defaults
	for i := range cluster.Spec.RKEConfig.MachinePools {
		given := &cluster.Spec.RKEConfig.MachinePools[i]
		if given.Name == effect.Pool && given.RollingUpdate != nil {
			pool.Surge, pool.Unavailable = shown(given.RollingUpdate.MaxSurge, pool.Surge), shown(given.RollingUpdate.MaxUnavailable, pool.Unavailable)
		}
	}
	return pool
}

func shown(value *intstr.IntOrString, otherwise string) string {
	if value == nil {
		return otherwise
	}
	return value.String()
}

// configure adds the effects of the machines' configuration.
func (p *Plan) configure(s Sources, rendered provisioning.Result) {
	if s.ControlPlane == nil {
		return
	}
	before := planner.Cluster{Name: p.Name, Namespace: p.Namespace, Releases: s.Releases, Spec: s.ControlPlane.Spec, Machines: machinesOf(s.Machines)}
	after := before
	after.Spec, after.Machines = provisioning.ControlPlane(s.Input.Cluster).Spec, machinesOf(relabelled(s, rendered))
	fields, whole, err := planner.Effects(before, after)
	if err != nil {
		p.Unknown = err.Error()
		return
	}
	p.Restarted, p.Updated = whole.Restarted, whole.Updated
	p.Configuration = slices.DeleteFunc(fields, func(e planner.Effect) bool {
		return slices.Contains(p.NotActedOn, "rkeConfig."+e.Field) || slices.Contains(p.NotActedOn, e.Field)
	})
	if len(p.Restarted) > 0 {
		p.Turns = []Turn{{"server", "1"}, {"workers", atATime(after.Spec.UpgradeStrategy.WorkerConcurrency)}}
	}
}

func atATime(concurrency string) string {
	if concurrency == "" {
		return "1"
	}
	return concurrency
}

// relabelled are the Machines with the labels that Cluster API gives them after the rendering: it
// copies the labels of a MachineDeployment's template to existing Machines.
func relabelled(s Sources, rendered provisioning.Result) []clusterv1.Machine {
	after := map[string]map[string]string{}
	for _, object := range rendered.Objects {
		if made, ok := object.(*clusterv1.MachineDeployment); ok {
			after[made.Labels[rkev1.MachinePoolLabel]] = made.Spec.Template.Labels
		}
	}
	var all []clusterv1.Machine
	for i := range s.Machines {
		m := *s.Machines[i].DeepCopy()
		pool := m.Labels[rkev1.MachinePoolLabel]
		if labels, made := after[pool], s.Input.Pools[pool].Deployment; labels != nil && made != nil {
			for name := range made.Spec.Template.Labels {
				delete(m.Labels, name)
			}
			maps.Copy(m.Labels, labels)
		}
		all = append(all, m)
	}
	return all
}

// machinesOf are the parts of Machines that decide about their plans.
func machinesOf(machines []clusterv1.Machine) []planner.Machine {
	all := make([]planner.Machine, 0, len(machines))
	for i := range machines {
		m := &machines[i]
		all = append(all, planner.Machine{Name: m.Name, Labels: m.Labels, Roles: planner.RolesOf(m.Labels), OS: m.Labels[rkev1.OSLabel], Deleting: !m.DeletionTimestamp.IsZero()})
	}
	return all
}

// change returns the largest change.
func (p *Plan) change() string {
	if slices.ContainsFunc(p.Pools, func(pool Pool) bool {
		return pool.Removed > 0 || pool.Replaced > 0 && !pool.NeedsApproval && !pool.Paused
	}) {
		return Replace
	}
	if len(p.Pools)+len(p.Configuration)+len(p.Settings) > 0 || p.Unknown != "" || p.Created {
		return InPlace
	}
	return None
}

// sentence begins with a capital letter and ends with a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

// machines shows names of machines; the first few of many.
func machines(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
