package planner

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/releases"
)

// planner is one look at a cluster.
type planner struct {
	Cluster
	release  *releases.Release
	init     *Machine
	warnings map[string]bool
	// suggested has the ends of the warnings about unknown arguments.
	suggested map[string]string
	layers    []layer
	files     []*selector
	// registries are the files of spec.registries, the same for all machines.
	registries func() ([]plan.File, error)
	// chartManifest is the manifest of spec.chartValues, the same for all servers.
	chartManifest func() ([]byte, error)
	// room is how many bytes of plans are still given out at this look.
	room int
}

// maxDelivered bounds the plans of one reconcile. A plan that is written triggers the next
// reconcile.
const maxDelivered = 4 << 20

func newPlanner(c Cluster) *planner {
	c.Machines = slices.Clone(c.Machines)
	slices.SortFunc(c.Machines, func(a, b Machine) int { return strings.Compare(a.Name, b.Name) })
	p := &planner{Cluster: c, warnings: map[string]bool{}, suggested: map[string]string{}, room: maxDelivered}
	p.registries = sync.OnceValues(p.registryFiles)
	p.chartManifest = sync.OnceValues(p.chartConfigs)
	return p
}

// Plan decides about a cluster. It does not change the snapshot.
func Plan(c Cluster) Result {
	p := newPlanner(c)
	for _, rule := range clusterRules {
		if f := rule(p); f != nil {
			return Result{Reason: f.reason, Message: f.message, Warnings: p.warned()}
		}
	}
	p.warnOfSpec()
	p.warnOfProxies()
	r := Result{Machines: make([]Verdict, 0, len(c.Machines))}
	for _, tier := range tiers {
		r.Machines = append(r.Machines, p.tier(tier, r.Machines)...)
	}
	r.Reason, r.Message = summary(r.Machines)
	if fields, addons := p.manifests(); r.Reason == rkev1.ReconciledReason && len(fields) > 0 {
		r.Message += ". " + p.release.Distribution + " applies " + strings.Join(fields, " and ") + " in its cluster, and reports errors there as events: kubectl -n kube-system describe addons.k3s.cattle.io " + strings.Join(addons, " ")
	}
	r.ControlPlaneReady = slices.ContainsFunc(p.Machines, func(m Machine) bool { return m.Roles.ControlPlane && isDone(r.Machines, m.Name) })
	r.Warnings = p.warned()
	return r
}

// manifests returns the fields that become manifests, and the distribution's names of them: the names
// of their files.
func (p *planner) manifests() (fields, addons []string) {
	if p.Spec.AdditionalManifest != "" {
		fields, addons = append(fields, "spec.additionalManifest"), append(addons, "addons")
	}
	if content, err := p.chartManifest(); err == nil && len(content) > 0 {
		fields, addons = append(fields, "spec.chartValues"), append(addons, "managed-chart-config")
	}
	return fields, addons
}

// clusterRules are checked before any machine.
var clusterRules = []func(*planner) *fault{
	(*planner).bounded, (*planner).releaseKnown, (*planner).versionReachable, (*planner).isComplete, (*planner).initNodeElected,
}

func (p *planner) releaseKnown() *fault {
	switch {
	case p.Spec.KubernetesVersion == "":
		return because(rkev1.KubernetesVersionMissingReason, "spec.kubernetesVersion is empty")
	case p.Releases == nil:
		return because(rkev1.ReleasesInvalidReason, "%s", plan.Head(p.ReleasesError, plan.MaxMessageBytes))
	}
	release, err := lookup(p.Releases, p.Spec.KubernetesVersion)
	if err != nil {
		return because(rkev1.KubernetesVersionUnknownReason, "%v", err)
	}
	if p.release = release; !release.Listed {
		p.warn(notListed, release.Version)
	}
	return nil
}

// versionReachable rejects a version that the cluster's servers cannot reach from their present
// one: over a minor version, which Kubernetes does not support
// (kubernetes.io/releases/version-skew-policy, "kube-apiserver": not even in a cluster of one
// server), and back by one, which needs a restore of the earlier data
// (docs.k3s.io/upgrades/roll-back).
func (p *planner) versionReachable() *fault {
	for _, m := range p.Machines {
		if !m.Roles.IsServer() {
			continue
		}
		if err := checkSkew(p.release, m.Name, m.KubeletVersion); err != nil {
			return because(rkev1.KubernetesVersionSkewReason, "%v", err)
		}
	}
	return nil
}

// staying are the machines that are not being deleted.
func (p *planner) staying(has func(Roles) bool) []*Machine {
	var found []*Machine
	for i := range p.Machines {
		if m := &p.Machines[i]; !m.Deleting && has(m.Roles) {
			found = append(found, m)
		}
	}
	return found
}

func isEtcd(r Roles) bool         { return r.Etcd }
func isControlPlane(r Roles) bool { return r.ControlPlane }

const lacksLabel = "none of the cluster's machines that stay has the label %s=true"

// isComplete checks that the cluster has the facts that every plan needs.
func (p *planner) isComplete() *fault {
	switch {
	case !p.InfrastructureProvisioned:
		return because(rkev1.WaitingForInfrastructureReason, "the cluster's infrastructure is not provisioned")
	case len(p.staying(isEtcd)) == 0:
		switch { // a cluster that has lost its etcd machines differs from one that has none yet
		case p.bootstrapped():
			return p.lost()
		case len(p.staying(func(Roles) bool { return true })) == 0:
			return because(rkev1.WaitingForMachinesReason, "the cluster has no machine, or all are being deleted. Create a MachineDeployment whose machines have the labels of their roles")
		}
		return because(rkev1.NoEtcdMachineReason, lacksLabel, rkev1.EtcdRoleLabel)
	case len(p.staying(isControlPlane)) == 0:
		return because(rkev1.NoControlPlaneMachineReason, lacksLabel, rkev1.ControlPlaneRoleLabel)
	case p.Tokens.Server == "" || p.Tokens.Agent == "":
		return because(rkev1.WaitingForTokensReason, "the cluster's join tokens do not exist yet")
	case slices.ContainsFunc(p.Authorities.files(), func(f authorityFile) bool { return len(f.content) == 0 }):
		return because(rkev1.WaitingForAuthoritiesReason, "the cluster's certificate authorities do not exist yet")
	}
	return nil
}

// bootstrapped reports whether the cluster was ever created. A machine that joined proves it, and
// so does an init node that applied a plan. An init node that never applied its plan has no data to
// lose.
func (p *planner) bootstrapped() bool {
	return p.Bootstrapped || slices.ContainsFunc(p.Machines, func(m Machine) bool {
		return m.Secret != nil && m.Secret.JoinedTo != "" && (m.Secret.JoinedTo != joinedToNone || len(m.Secret.Data[plan.KeyAppliedChecksum]) > 0)
	})
}

// lost reports that no remaining machine has both the cluster's data and the etcd label. A machine
// that lost the label, for example by an edit of its MachineDeployment's template, still has the
// data.
func (p *planner) lost() *fault {
	for _, m := range p.staying(func(Roles) bool { return true }) {
		if !m.Roles.Etcd && p.hasMade(m) {
			return because(rkev1.NoEtcdMachineReason, "%s holds the cluster's etcd data, but no longer has the label %s=true: set the label again, "+
				"in the template of its MachineDeployment if it has one", m.Name, rkev1.EtcdRoleLabel)
		}
	}
	if at := slices.IndexFunc(p.Machines, func(m Machine) bool { return m.Restored && m.Roles.Etcd }); at >= 0 {
		return because(rkev1.OwnerUnknownReason, "%s, whose server holds the cluster's data, was restored from a backup with owners that do not exist. Drover does not change its server, and creates no other. "+
			"Restore again: empty the namespace without touching its servers, and apply the backup without metadata.ownerReferences, as docs/dataflow.md describes", p.Machines[at].Name)
	}
	const words = "the cluster existed before, and no machine has its etcd data. A new machine would start an empty cluster"
	if p.Bootstrapped && p.OlderState != "" {
		return because(rkev1.EtcdLostReason, words+". The Secret %s, which records the earlier cluster, is older than this Cluster", p.OlderState)
	}
	return because(rkev1.EtcdLostReason, words)
}

// hasMade reports whether a machine is the init node, which creates the cluster. The marks in its
// plan Secret stay, so that no other machine is chosen later. Either mark is enough, and so is the
// remembered ID.
func (p *planner) hasMade(m *Machine) bool {
	return p.MadeBy != "" && m.ID == p.MadeBy || m.Secret != nil && (m.Secret.InitNode || m.Secret.JoinedTo == joinedToNone)
}

// initNodeElected finds the machine that makes the cluster.
func (p *planner) initNodeElected() *fault {
	candidates := p.staying(isEtcd)
	for _, m := range candidates {
		if p.hasMade(m) {
			p.init = m
			return nil
		}
	}
	if p.bootstrapped() {
		return p.lost()
	}
	p.init = slices.MinFunc(candidates, func(a, b *Machine) int { return p.preference(b) - p.preference(a) })
	return nil
}

// preference orders candidates for the init node; of equals the first by name is taken.
func (p *planner) preference(m *Machine) int {
	points := 0
	for i, yes := range []bool{m.Provisioned, m.Roles.ControlPlane, p.InitMachineID != "" && m.ID == p.InitMachineID} {
		if yes {
			points += 1 << i
		}
	}
	return points
}

// warnOfSpec warns of parts of the specification that have no effect.
func (p *planner) warnOfSpec() {
	for _, field := range NotActedOn(&p.Spec) {
		p.warn("spec.%s has no effect yet", field)
	}
	selectors := slices.Clone(p.files)
	for _, layer := range p.layers {
		selectors = append(selectors, layer.selector)
	}
	for _, s := range selectors {
		matches := func(m Machine) bool {
			matches, err := s.matches(m.Labels)
			return matches || err != nil // an invalid selector blocks each machine, and each reports it
		}
		if !slices.ContainsFunc(p.Machines, matches) {
			p.warn("%s: its selector matches no machine", s.where)
		}
	}
}

// warnOfProxies names the proxies that do not answer the agents.
func (p *planner) warnOfProxies() {
	machines := map[string][]string{}
	for _, m := range p.Machines {
		if m.Secret == nil || m.Deleting {
			continue
		}
		if status, err := plan.DecodeAgentStatus(m.Secret.Data[plan.KeyAgentStatus]); err == nil && status.Proxy != "" {
			failed := oneLine(status.Proxy)
			machines[failed] = append(machines[failed], m.Name)
		}
	}
	for failed, names := range machines {
		p.warn("%s: the proxy of spec.agentEnvVars does not answer (%s). The agent calls the manager without it. k3s and RKE2 have the same variable and use the proxy, "+
			"so they may be unable to pull images", listed(names), failed)
	}
}

// warn keeps a warning, once.
func (p *planner) warn(format string, args ...any) {
	p.warnings[fmt.Sprintf(format, args...)] = true
}

// maxWarnings bounds the warnings in a condition.
const maxWarnings = 20

func (p *planner) warned() []string {
	all := slices.Sorted(maps.Keys(p.warnings))
	if len(all) > maxWarnings {
		all = append(all[:maxWarnings:maxWarnings], fmt.Sprintf("and %d more", len(all)-maxWarnings))
	}
	return all
}

// tier is a group of machines that change together, before the machines of the next tier. The tiers
// of further etcd machines and control planes go between.
type tier struct {
	name    string
	has     func(*planner, *Machine) bool
	at      func(rkev1.ClusterUpgradeStrategy) string
	retries int
}

var tiers = []tier{
	{"init", func(p *planner, m *Machine) bool { return m.ID == p.init.ID && m.Name == p.init.Name },
		func(rkev1.ClusterUpgradeStrategy) string { return "1" }, plan.Unlimited},
	{"server", func(p *planner, m *Machine) bool { return m.Roles.IsServer() && m.Name != p.init.Name },
		func(s rkev1.ClusterUpgradeStrategy) string { return s.ControlPlaneConcurrency }, plan.Unlimited},
	{"worker", func(_ *planner, m *Machine) bool { return !m.Roles.IsServer() },
		func(s rkev1.ClusterUpgradeStrategy) string { return s.WorkerConcurrency }, plan.Unlimited},
}

// tier decides for the machines of a tier, given the verdicts of earlier tiers.
func (p *planner) tier(t tier, before []Verdict) []Verdict {
	var all []*look
	for i := range p.Machines {
		if m := &p.Machines[i]; t.has(p, m) {
			all = append(all, (&look{planner: p, Machine: m, tier: t, before: before}).observe())
		}
	}
	turns := turnsOf(t.at(p.Spec.UpgradeStrategy), len(all))
	for _, l := range all {
		// It has a plan that it has not completed.
		isDone := l.progress.reason == rkev1.UpToDateReason && l.otherVersion == ""
		if !l.Deleting && l.progress.delivered != nil && !isDone {
			turns.taken = append(turns.taken, l.Name)
		}
	}
	verdicts := make([]Verdict, 0, len(all))
	for _, l := range all {
		l.turns = turns
		verdicts = append(verdicts, l.verdict())
	}
	return verdicts
}

// turns are how many machines of a tier may change at a time, and which do.
type turns struct {
	limit int
	taken []string
}

// turnsOf reads a concurrency: 1 when empty, without limit when 0, a percentage of the tier rounded
// up.
func turnsOf(concurrency string, machines int) *turns {
	number, isPercentage := strings.CutSuffix(concurrency, "%")
	limit, err := strconv.Atoi(number)
	switch {
	case err != nil || limit < 0:
		limit = 1
	case isPercentage:
		limit = (min(limit, 100)*machines + 99) / 100
	}
	return &turns{limit: limit}
}
