package planner

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/releases"
)

// addresses sets the node's addresses. It leaves out the addresses of a family for which the
// cluster has no range: the distribution would not start.
func (l *look) addresses(s settings) {
	families := l.families()
	internal, external := families.of(l.InternalIPs), families.of(l.ExternalIPs)
	own := families.firstOfEach(slices.Concat(internal, external))
	if len(internal) == 0 {
		external = nil
	}
	external = slices.DeleteFunc(external, func(address string) bool { return slices.Contains(own, address) })
	if _, given := s["node-ip"]; !given {
		l.nodeIPs = own
		s.add("node-ip", own...)
	}
	// A cloud's controller manager sets external addresses itself.
	if _, given := s["node-external-ip"]; !given && len(external) > 0 && s["cloud-provider-name"] == nil {
		s.add("node-external-ip", external...)
	}
	if !l.Roles.ControlPlane {
		return
	}
	names := slices.Concat(usable(l.InternalIPs), usable(l.ExternalIPs))
	if l.Endpoint != "" && l.Endpoint != "localhost" {
		names = append(names, l.Endpoint)
	}
	for _, name := range names {
		if !slices.Contains(s.list("tls-san"), any(name)) {
			s.add("tls-san", name)
		}
	}
	if _, given := s["advertise-address"]; !given && len(own) > 0 && len(external) > 0 {
		s["advertise-address"] = own[0]
	}
}

// usable are addresses in the form that Go writes them in, without those that mean one server
// nowhere else than on itself, each once.
func usable(addresses []string) []string {
	var found []string
	for _, text := range addresses {
		address, err := netip.ParseAddr(strings.TrimSpace(text))
		if address = address.Unmap(); err != nil || address.Zone() != "" || !address.IsGlobalUnicast() {
			continue
		}
		if text := address.String(); !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	return found
}

// families lists the address families of the cluster's networks in order; true is IPv6. If it is
// empty, the server's addresses decide: IPv4 if it has both.
type families []bool

// families returns the families of the init node's ranges, or else the family of its addresses:
// agents have no arguments for ranges.
func (l *look) families() families {
	var all families
	for _, item := range l.ofInit("cluster-cidr") {
		text, _ := item.(string)
		for part := range strings.SplitSeq(text, ",") {
			if prefix, err := netip.ParsePrefix(strings.TrimSpace(part)); err == nil && !slices.Contains(all, prefix.Addr().Is6()) {
				all = append(all, prefix.Addr().Is6())
			}
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, addresses := range [][]string{l.init.InternalIPs, l.init.ExternalIPs, l.InternalIPs, l.ExternalIPs} {
		if found := usable(addresses); len(found) > 0 {
			return families{!slices.ContainsFunc(found, func(text string) bool { return !is6(text) })}
		}
	}
	return nil
}

// of are the usable addresses of the families, in their order.
func (f families) of(addresses []string) []string {
	var found []string
	for _, family := range f {
		for _, address := range usable(addresses) {
			if is6(address) == family {
				found = append(found, address)
			}
		}
	}
	return found
}

// firstOfEach returns the first address of each family, in the order of the families: the kubelet
// takes one address, or two if one is IPv6 (k8s.io/component-helpers/node/util, ips.go). A family
// without an internal address uses an external one: a server's IPv6 address is often its only one,
// and is global.
func (f families) firstOfEach(addresses []string) []string {
	var first []string
	for _, family := range f {
		if at := slices.IndexFunc(addresses, func(address string) bool { return is6(address) == family }); at >= 0 {
			first = append(first, addresses[at])
		}
	}
	return first
}

func is6(text string) bool { return strings.Contains(text, ":") }

// registers returns the labels and taints with which the kubelet registers its Node, in addition to
// the user's own arguments.
func (l *look) registers() (plan.File, error) {
	s, labels := settings{}, map[string]string{}
	maps.Copy(labels, l.NodeLabels)
	labels[rkev1.NodeMachineLabel] = l.ID
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if KubeletMaySet(name) { // it does not start with others, which the manager sets on the Node
			s.add("node-label+", name+"="+labels[name])
		}
	}
	for _, taint := range NodeTaints(l.Machine, l.release.Distribution) {
		if text := taint.ToString(); !slices.Contains(s.list("node-taint+"), any(text)) {
			s.add("node-taint+", text)
		}
	}
	text, err := encode(s)
	file := plan.NewFile(l.configPath(nodeConfig), "0600", text)
	file.Dynamic, file.Minor = true, true
	return file, err
}

// kubelet sets the arguments that identify its Node.
func (l *look) kubelet(s settings) {
	for _, name := range []string{"kubelet-arg", "kubelet-arg+"} {
		if !s.has(name, "provider-id=") {
			continue
		}
		l.warn("%s: Drover sets provider-id from the machine; your value is ignored", name)
		s[name] = slices.DeleteFunc(slices.Clone(s.list(name)), func(item any) bool {
			text, _ := item.(string)
			return strings.HasPrefix(text, "provider-id=")
		})
	}
	s.add("kubelet-arg", "provider-id="+l.ProviderID)
}

// kubeletLabels are labels of Kubernetes' own that a kubelet may set on its Node
// (k8s.io/kubelet/pkg/apis, well_known_labels.go).
var kubeletLabels = []string{"kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/os",
	"beta.kubernetes.io/instance-type", "topology.kubernetes.io/region", "topology.kubernetes.io/zone",
	"failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone"}

// KubeletMaySet reports whether a kubelet may give its own Node the label.
func KubeletMaySet(label string) bool {
	domain, _, found := strings.Cut(label, "/")
	within := func(parent string) bool { return domain == parent || strings.HasSuffix(domain, "."+parent) }
	if !found || !within("kubernetes.io") && !within("k8s.io") {
		return true
	}
	return slices.Contains(kubeletLabels, label) || within("kubelet.kubernetes.io") || within("node.kubernetes.io")
}

// CheckLabels finds the first label that a Node cannot have. A kubelet that is given one does not
// start.
func CheckLabels(labels map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if problems := append(validation.IsQualifiedName(name), validation.IsValidLabelValue(labels[name])...); len(problems) > 0 {
			return fmt.Errorf("label %.100q: %s", name, problems[0])
		}
	}
	return nil
}

// CheckTaints finds the first taint that a Node cannot have.
func CheckTaints(taints []corev1.Taint) error {
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	for _, taint := range taints {
		problems := append(validation.IsQualifiedName(taint.Key), validation.IsValidLabelValue(taint.Value)...)
		if !slices.Contains(effects, taint.Effect) {
			problems = append(problems, fmt.Sprintf("its effect is %.40q; it must be %s, %s or %s", taint.Effect, effects[0], effects[1], effects[2]))
		}
		if len(problems) > 0 {
			return fmt.Errorf("taint %.100q: %s", taint.Key, problems[0])
		}
	}
	return nil
}

// NodeTaints returns a machine's own taints, and the taints that keep workloads off servers without
// the worker role, as in Rancher.
func NodeTaints(m *Machine, distribution string) []corev1.Taint {
	taints := slices.Clone(m.NodeTaints)
	if r := m.Roles; r.IsServer() && !r.Worker {
		if r.Etcd && (distribution != releases.K3s || !r.ControlPlane) {
			taints = append(taints, corev1.Taint{Key: "node-role.kubernetes.io/etcd", Effect: corev1.TaintEffectNoExecute})
		}
		if r.ControlPlane {
			taints = append(taints, corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule})
		}
	}
	return taints
}
