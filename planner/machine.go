package planner

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/releases"
)

// look is one look at a machine.
type look struct {
	*planner
	*Machine
	tier     tier
	turns    *turns
	progress progress
	// fault blocks the machine whatever plan it has.
	fault *fault
	// before are the verdicts about machines of earlier tiers.
	before []Verdict
	joinTo string
	// registry has all system images, if the user sets it.
	registry string
	// otherVersion explains that its kubelet runs another version than its applied plan; empty
	// otherwise.
	otherVersion string
	// nodeIPs are the Node's addresses in its plan, if they come from the machine.
	nodeIPs []string
	// same is true if its plan is the delivered one, minor if it differs only in files that are
	// marked as minor.
	same, minor bool
}

// isInit reports whether the machine makes the cluster.
func (l *look) isInit() bool { return l.Machine == l.init }

// machineRules hold for every machine, changeRules for one whose plan is another than it was given.
var machineRules = []func(*look) *fault{
	(*look).canHavePlan, (*look).hasOwnNodeName, (*look).knowsServer, (*look).rendered,
}

var changeRules = []func(*look) *fault{(*look).earlierTiersDone, (*look).hasTurn}

// observe applies the rules for every machine, and sets its progress.
func (l *look) observe() *look {
	l.progress.stand(l.Secret)
	if l.Joined && l.progress.reason == rkev1.WaitingForAgentReason && len(l.Secret.Data[plan.KeyAgentPublicKey]) == 0 {
		l.progress.message = "the manager cannot authenticate its agent, because its plan Secret and the record of its key were deleted, or were restored from a backup that is older than its registration. Let the agent register again, " +
			"or delete the Machine to replace it, unless it is the cluster's only server, which holds all data"
	}
	for _, rule := range machineRules {
		if l.fault = rule(l); l.fault != nil {
			break
		}
	}
	if l.fault == nil && l.same && l.progress.reason == rkev1.UpToDateReason {
		l.otherVersion = l.runsAnotherVersion()
	}
	return l
}

// runsAnotherVersion says that the kubelet reports another version than the plan installed. A mirror
// may have another release under the installer's name. A version without the build of a distribution
// is compared without it.
func (l *look) runsAnotherVersion() string {
	runs, wanted := l.KubeletVersion, l.release.Version
	if !strings.Contains(runs, "+") {
		wanted, _, _ = strings.Cut(wanted, "+")
	}
	if runs == "" || runs == wanted {
		return ""
	}
	return fmt.Sprintf("its plan is applied, but its kubelet runs %.64s, and spec.kubernetesVersion is %s", runs, l.release.Version)
}

// verdict returns the result of the rules.
func (l *look) verdict() Verdict {
	if l.fault != nil {
		return l.held(l.fault)
	}
	if l.same && l.progress.reason == rkev1.PlanFailedReason && l.Retry != l.Secret.Retried && l.Retry != "" {
		return l.redelivery()
	}
	if l.otherVersion != "" {
		if l.Secret.Overdue {
			return l.says(rkev1.KubernetesVersionDiffersReason, l.otherVersion)
		}
		return l.says(rkev1.WaitingForProbesReason, l.otherVersion)
	}
	if l.same {
		if why := l.addressChanged(); why != "" {
			return l.says(rkev1.AddressChangedReason, why)
		}
		return l.says(l.progress.reason, l.progress.message)
	}
	if !l.minor {
		for _, rule := range changeRules {
			if f := rule(l); f != nil {
				return l.held(f)
			}
		}
	}
	return l.delivery()
}

// addressChanged compares the Node's addresses in an applied plan with the addresses that its agent
// reports. The report changes no plan: a server that an attacker controls could report the address of
// another server, and machines would join there. A user confirms the address with an annotation.
func (l *look) addressChanged() string {
	applied := []string{rkev1.UpToDateReason, rkev1.WaitingForProbesReason, rkev1.ProbesFailingReason}
	if l.Spec.UnmanagedConfig || !slices.Contains(applied, l.progress.reason) {
		return ""
	}
	status, err := plan.DecodeAgentStatus(l.Secret.Data[plan.KeyAgentStatus])
	has := usable(status.Addresses)
	if err != nil || len(has) == 0 {
		return ""
	}
	gone := slices.DeleteFunc(slices.Clone(l.nodeIPs), func(ip string) bool { return slices.Contains(has, ip) })
	if len(gone) == 0 {
		return ""
	}
	return fmt.Sprintf("its plan has the address %s, but its agent reports that the server has %s. Give the server its address back, or set the Machine's annotation %s",
		strings.Join(gone, " and "), listed(has), rkev1.InternalAddressAnnotation)
}

// delivery is the plan, which is rendered once more: of a hundred that were compared few are
// delivered, and only those are kept.
func (l *look) delivery() Verdict {
	if l.room <= 0 {
		return l.says(rkev1.WaitingForTurnReason, "its plan is written next, after the plans of other machines")
	}
	_, raw, f := l.encoded()
	if f != nil {
		return l.held(f)
	}
	l.room -= len(raw)
	v := l.says(rkev1.PlanDeliveredReason, "its plan was written")
	v.Delivery = l.order(raw)
	return v
}

// redelivery orders the agent to apply the same plan again: the user asked for it after the agent
// gave up.
func (l *look) redelivery() Verdict {
	v := l.says(rkev1.PlanDeliveredReason, "its plan was delivered again")
	v.Delivery = l.order(nil)
	return v
}

func (l *look) order(raw []byte) *Delivery {
	d := &Delivery{Plan: raw, MaxFailures: l.tier.retries, InitNode: l.isInit(), JoinURL: l.joinURL(l.Machine), JoinedTo: l.joinTo, Retried: l.Retry}
	if l.isInit() {
		d.JoinedTo = joinedToNone
	}
	return d
}

// joinedToNone is the value of JoinedTo for the init node.
const joinedToNone = "-"

func (l *look) says(reason, message string) Verdict {
	return Verdict{Machine: l.Name, Reason: reason, Message: message, Progress: l.progress.reason, ProgressMessage: l.progress.message}
}

func (l *look) held(f *fault) Verdict {
	v := l.says(f.reason, f.message)
	v.Object, v.Field = f.object, f.field
	return v
}

// canHavePlan blocks a machine that gets no plan, and one whose plan would lack facts that become
// known later, also facts that a move has lost for a while.
func (l *look) canHavePlan() *fault {
	switch {
	case l.Deleting:
		return because(rkev1.MachineDeletingReason, "it is being deleted, and its plan is not changed")
	case l.Roles == (Roles{}):
		return because(rkev1.NoRoleReason, "it has none of the labels %s, %s and %s", rkev1.EtcdRoleLabel, rkev1.ControlPlaneRoleLabel, rkev1.WorkerRoleLabel)
	case cmp.Or(l.OS, "linux") != "linux":
		return because(rkev1.OperatingSystemUnsupportedReason, "its label %s is %.40q, and only linux is supported", rkev1.OSLabel, l.OS)
	case l.Roles.IsServer() && !l.isInit():
		return because(rkev1.TierUnsupportedReason, "%s is the cluster's server. Drover does not support further machines with the etcd or control-plane role yet", l.init.Name)
	case l.Invalid != "":
		return because(rkev1.MachineInvalidReason, "%s", plan.Head(oneLine(l.Invalid), 500))
	case l.Secret == nil || l.ID == "":
		return because(rkev1.WaitingForPlanSecretReason, "its RKEBootstrap has no identity and no plan Secret yet")
	case !l.Provisioned || l.ProviderID == "":
		return because(rkev1.WaitingForServerReason, "its server is not created yet")
	case l.progress.delivered == nil && clouds.RunsElsewhere(l.ProviderID, l.Secret.AgentServer):
		return because(rkev1.DuplicateServersReason, "its agent registered from server %s, but its recorded server is %.100q: the cloud created more than one server for it. "+
			"It gets no plan", l.Secret.AgentServer, l.ProviderID)
	case len(l.InternalIPs) == 0 && len(l.ExternalIPs) == 0:
		return because(rkev1.WaitingForServerReason, "its infra machine has no address yet")
	case l.EarlierNode.Name != "":
		return because(rkev1.NodeOfEarlierServerReason, "the label of the cluster's Node %s names this machine, but the Node has the immutable provider ID %.100q of an earlier server. "+
			"Drover deletes the Node when its kubelet stops reporting, about a minute after its server is gone. The machine then gets its plan. If the kubelet of the server %.100q uses this Node, "+
			"the Node is not deleted", l.EarlierNode.Name, l.EarlierNode.ProviderID, l.ProviderID).of("Node", l.EarlierNode.Name)
	}
	return nil
}

// hasOwnNodeName holds a machine whose Node would have the name of another machine's Node. Machines
// that exist keep their names, the init node before all others.
func (l *look) hasOwnNodeName() *fault {
	name, given := l.nodeName(l.Machine)
	if name == "" {
		return nil
	}
	before := func(m *Machine) bool {
		if m == l.Machine || l.isInit() {
			return false
		}
		mine, theirs := l.progress.delivered != nil, m.Secret != nil && m.Secret.Delivered != nil
		return m == l.init || theirs && !mine || theirs == mine && m.Name < l.Name
	}
	for _, m := range l.staying(func(Roles) bool { return true }) {
		other, _ := l.nodeName(m)
		if other != name || !before(m) {
			continue
		}
		const words = "it has the same name for its Node as %s, and a cluster cannot have two Nodes with one name: "
		if given {
			return because(rkev1.MachineInvalidReason, words+"set another value of the label %s, or remove the label", m.Name, rkev1.MachineNodeNameLabel)
		}
		return because(rkev1.ConfigInvalidReason, words+"remove node-name, or select one machine in spec.machineSelectorConfig", m.Name)
	}
	return nil
}

// nodeName is the name that a machine's Node gets from its label or its configuration, and whether it
// is from the label; empty if the server's own name is taken.
func (p *planner) nodeName(m *Machine) (name string, isLabel bool) {
	if m.NodeName != "" {
		return strings.ToLower(m.NodeName), true
	}
	for _, layer := range p.layers {
		if value, given := layer.value("node-name"); given {
			if matches, err := layer.selector.matches(m.Labels); err == nil && matches {
				text, _ := value.(string)
				name = strings.ToLower(text)
			}
		}
	}
	return name, false
}

// knowsServer picks the server that the machine joins, and stays with it for as long as it is one.
func (l *look) knowsServer() *fault {
	if l.isInit() {
		return nil
	}
	current := l.Secret.JoinedTo
	var there, ready []string
	for _, m := range l.staying(isControlPlane) {
		at := l.joinURL(m)
		there = append(there, cmp.Or(at, current)) // a machine whose address is unknown for now may be the one that it has joined
		if at != "" && isDone(l.before, m.Name) {
			ready = append(ready, at)
		}
	}
	if current != "" && slices.Contains(there, current) {
		l.joinTo = current
		return nil
	}
	if len(ready) == 0 {
		return cmp.Or(l.earlierTiersDone(), because(rkev1.WaitingForControlPlaneReason, "no control plane machine is ready to accept joins"))
	}
	l.joinTo = ready[int(crc32.ChecksumIEEE([]byte(l.ID))%uint32(len(ready)))]
	return nil
}

// joinURL returns the address at which machines join a control plane, or an empty string while its
// address is unknown. The ports are the supervisor's: k3s pkg/cli/cmds/server.go
// (https-listen-port), RKE2 pkg/cli/defaults/defaults.go.
func (p *planner) joinURL(m *Machine) string {
	addresses := slices.Concat(usable(m.InternalIPs), usable(m.ExternalIPs))
	if !m.Roles.ControlPlane || len(addresses) == 0 {
		return ""
	}
	port := "6443"
	if p.release.Distribution == releases.RKE2 {
		port = "9345"
	}
	return (&url.URL{Scheme: "https", Host: net.JoinHostPort(addresses[0], port)}).String()
}

// rendered compares the plan with the delivered one, and drops it to save memory: a tier has many.
func (l *look) rendered() *fault {
	wanted, raw, f := l.encoded()
	if f != nil {
		return f
	}
	if d := l.progress.delivered; d != nil && raw != nil {
		l.minor = d.Broken == "" && major(wanted) == d.Major
	}
	return nil
}

// encoded returns the machine's plan as it is delivered. The bytes are nil if the plan is the
// delivered one, which was validated then.
func (l *look) encoded() (plan.Plan, []byte, *fault) {
	wanted, err := l.render()
	var raw []byte
	if err == nil {
		raw, err = json.Marshal(wanted)
	}
	if d := l.progress.delivered; err == nil && d != nil {
		if l.same = plan.Checksum(raw) == d.Checksum; l.same {
			return wanted, nil, nil
		}
		wanted.Files = append(wanted.Files, l.gone(wanted.Files)...)
		if raw, err = json.Marshal(wanted); err == nil && plan.Checksum(raw) == d.Checksum {
			l.same = true
			return wanted, nil, nil
		}
	}
	return wanted, raw, refused(wanted, raw, err)
}

// refused returns why a plan cannot be delivered or rendered; err is the error of rendering.
func refused(wanted plan.Plan, raw []byte, err error) *fault {
	if f, is := errors.AsType[*fault](err); is {
		return f
	}
	size := 0
	for _, file := range wanted.Files {
		size += len(file.Path)
	}
	if err == nil {
		err = wanted.Validate()
	}
	switch {
	case err != nil:
		return because(rkev1.ConfigInvalidReason, "the agent would reject its plan: %s", plan.Head(oneLine(err.Error()), 500))
	case len(raw) > maxPlanBytes:
		return because(rkev1.ConfigInvalidReason, "its plan would have %d bytes, and a Secret holds at most %d: use fewer or smaller files", len(raw), maxPlanBytes)
	case size > maxPathBytes:
		return because(rkev1.ConfigInvalidReason, "the paths of its plan's files have %d bytes (limit %d): use fewer files", size, maxPathBytes)
	}
	return nil
}

// maxPlanBytes leaves space in the plan Secret for the agent's report.
const maxPlanBytes = 640 << 10

// planless lists the reasons of machines that get no plan: other machines do not wait for them.
var planless = []string{rkev1.MachineDeletingReason, rkev1.NoRoleReason, rkev1.OperatingSystemUnsupportedReason, rkev1.TierUnsupportedReason}

func (l *look) earlierTiersDone() *fault {
	for _, v := range l.before {
		if !v.Done() && !slices.Contains(planless, v.Reason) {
			return because(rkev1.WaitingForControlPlaneReason, "waiting for %s", v.Machine)
		}
	}
	return nil
}

// hasTurn gives the machine its turn, if there is one.
func (l *look) hasTurn() *fault {
	t := l.turns
	// A first plan does not affect the running cluster.
	if l.progress.delivered == nil || slices.Contains(t.taken, l.Name) {
		return nil
	}
	if t.limit <= 0 || len(t.taken) < t.limit {
		t.taken = append(t.taken, l.Name)
		return nil
	}
	names := t.taken
	more := ""
	if len(names) > 3 {
		names, more = names[:3], " and others"
	}
	return because(rkev1.WaitingForTurnReason, "at most %d machines of its role change at a time; waiting for %s%s", t.limit, strings.Join(names, ", "), more)
}
