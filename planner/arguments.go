package planner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// argumentRule is a rule for an argument of the distribution, beside the kind of its value, which the
// catalogue of releases has.
type argumentRule struct {
	name string
	// flag limits the rule to one flag in a list of a component's flags, such as kubelet-arg.
	flag string
	// check returns an error that continues a sentence about the argument. It repeats no value,
	// because a value may be a secret. Nil accepts all values.
	check func(items []string) error
	// single: only one machine may have the value, so it cannot be for all machines.
	single bool
	// fixed: the value cannot change after the cluster was created.
	fixed bool
	// unset is the value that the distribution takes without the argument.
	unset string
	// absent is the value that Drover sets if the specification does not have the argument. Null
	// removes it.
	absent string
	// source says where the rule comes from.
	source string
}

// argumentRules is the table of rules. docs/kinds/rkecontrolplane.md has the same rows.
var argumentRules = []argumentRule{
	{
		name: "cluster-cidr", check: checkRanges, fixed: true,
		source: "docs.k3s.io and docs.rke2.io, Basic Network Options, Dual-stack: only when the cluster is first created; k3s-io/k3s#2603: " +
			"Nodes keep the range that they were given",
	},
	{
		name: "service-cidr", check: checkRanges, fixed: true,
		source: "the same; Services keep their addresses, and the API server's certificate has the first address of the range",
	},
	{
		name: "cluster-dns", check: checkAddresses, fixed: true,
		source: "k3s pkg/cli/cmds/server.go: the ClusterIP of the CoreDNS Service; kubernetes.io, Service: spec.clusterIP is immutable",
	},
	{
		name: "flannel-backend", fixed: true, unset: "vxlan",
		source: "k3s pkg/cli/cmds/server.go has the default; docs.k3s.io, Basic Network Options: a migration needs a reboot of all nodes, which Drover does not do",
	},
	{
		name: "cni", fixed: true, unset: "canal", absent: defaultCNI,
		source: "docs.rke2.io, Network Options: a CNI plugin is installed by its chart; rules and interfaces of the earlier plugin stay on each node",
	},
	{
		name: "node-label", check: checkNodeLabels,
		source: "k8s.io/kubelet/pkg/apis, well_known_labels.go: a kubelet does not start with another label of Kubernetes; k3s-io/k3s#10916",
	},
	{name: "kubelet-arg", flag: "node-labels", check: checkNodeLabels, source: "the same: k3s passes node-label to this flag"},
	{
		name: "node-taint", check: checkNodeTaints,
		source: "k8s.io/kubernetes/pkg/util/taints: a kubelet does not start with a taint without an effect",
	},
	{name: "kubelet-arg", flag: "register-with-taints", check: checkNodeTaints, source: "the same: k3s passes node-taint to this flag"},
	{
		name: "node-name", check: checkNodeName, single: true,
		source: "k8s.io/kubernetes, validation of Nodes; docs.k3s.io, Requirements: two Nodes cannot have the same name",
	},
	{
		name: "etcd-s3-endpoint", check: checkEndpoint,
		source: "github.com/minio/minio-go, New: an endpoint is a host with an optional port; k3s-io/k3s#8924",
	},
	{
		name: "etcd-snapshot-schedule-cron", check: checkSchedule,
		source: "k3s pkg/etcd/snapshot.go: the standard parser of github.com/robfig/cron/v3",
	},
}

// checkEndpoint accepts a host with an optional port, and https:// before it, which endpointHost
// removes.
func checkEndpoint(items []string) error {
	for _, item := range items {
		switch host := endpointHost(item); {
		case strings.HasPrefix(host, "http://"):
			return errors.New("must be a host name with an optional port: remove http://, and set etcd-s3-insecure: true in spec.machineGlobalConfig for a connection without TLS")
		case host == "" || strings.ContainsAny(host, "/?#@ \t\r\n"):
			return errors.New("must be a host name with an optional port, such as s3.example.com:9000")
		}
	}
	return nil
}

// endpointHost removes https:// and the slash at the end from the URL of a storage. k3s always uses
// TLS, unless etcd-s3-insecure is set.
func endpointHost(text string) string {
	if host, is := strings.CutPrefix(text, "https://"); is {
		return strings.TrimSuffix(host, "/")
	}
	return text
}

// checkSchedule accepts a schedule as k3s parses it. It does not check the name of a time zone,
// because the server's time zones may differ from the manager's.
func checkSchedule(items []string) error {
	text := strings.TrimSpace(strings.Join(items, ",")) // a list in a field of the schedule
	if zone, is := strings.CutPrefix(strings.TrimPrefix(text, "CRON_"), "TZ="); is {
		_, text, _ = strings.Cut(zone, " ")
	}
	wrong := errors.New("must be a cron schedule of five fields, such as 0 */6 * * *, or one such as @every 6h")
	if strings.Contains(text, "TZ=") { // the parser panics if no space follows a time zone
		return wrong
	}
	if _, err := cron.ParseStandard(text); err != nil {
		return wrong
	}
	return nil
}

// readers are arguments of RKE2 that the catalogue has for servers and agents, because RKE2 accepts
// them on both, and that only some machines read. Other machines do not get them, so that a change
// does not restart them. Source: rancher/rke2 pkg/rke2/rke2.go, setup: an agent runs neither etcd
// nor a component of the control plane, and a server runs those that are not disabled.
var readers = []struct {
	prefixes []string
	read     func(Roles) bool
}{
	{[]string{"audit-policy-file", "pod-security-admission-config-file", "kube-apiserver-", "kube-controller-manager-", "kube-scheduler-", "cloud-controller-manager-"}, isControlPlane},
	{[]string{"etcd-image", "etcd-extra-"}, isEtcd},
	{[]string{"control-plane-"}, Roles.IsServer},
}

// isRead reports whether machines with these roles read an argument.
func isRead(name string, roles Roles) bool {
	for _, reader := range readers {
		if slices.ContainsFunc(reader.prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			return reader.read(roles)
		}
	}
	return true
}

// byAnnotation says how a Node gets labels that its kubelet may not set.
const byAnnotation = "set it in the annotation " + rkev1.NodeLabelsAnnotation + " of the Machines, in spec.template.metadata.annotations of a MachineDeployment"

func checkNodeLabels(items []string) error {
	for i, item := range items {
		name, value, found := strings.Cut(item, "=")
		if !found {
			return fmt.Errorf("must be name=value, and item %d has no =", i+1)
		}
		if err := CheckLabels(map[string]string{name: value}); err != nil {
			return fmt.Errorf("has the %w", err)
		}
		if !KubeletMaySet(name) {
			return fmt.Errorf("has the label %.100q, which a kubelet cannot set: %s", name, byAnnotation)
		}
	}
	return nil
}

func checkNodeTaints(items []string) error {
	for i, item := range items {
		at := strings.LastIndex(item, ":")
		if at < 0 {
			return fmt.Errorf("must be name=value:effect or name:effect, and item %d has no effect; the effects are NoSchedule, PreferNoSchedule and NoExecute", i+1)
		}
		name, value, _ := strings.Cut(item[:at], "=")
		if err := CheckTaints([]corev1.Taint{{Key: name, Value: value, Effect: corev1.TaintEffect(item[at+1:])}}); err != nil {
			return fmt.Errorf("has the %w", err)
		}
	}
	return nil
}

func checkNodeName(items []string) error {
	if len(items) > 1 {
		return errors.New("must be one name")
	}
	for _, item := range items {
		if problems := validation.IsDNS1123Subdomain(strings.ToLower(item)); len(problems) > 0 {
			return fmt.Errorf("is not a valid name of a Node: %s", problems[0])
		}
	}
	return nil
}

// checkRanges accepts one or two IP ranges, each of another family.
func checkRanges(items []string) error {
	wrong := errors.New("must be an IP range such as 10.42.0.0/16, or two of different families")
	var families []bool
	for _, item := range items {
		prefix, err := netip.ParsePrefix(item)
		if err != nil || slices.Contains(families, prefix.Addr().Is6()) {
			return wrong
		}
		families = append(families, prefix.Addr().Is6())
	}
	return nil
}

func checkAddresses(items []string) error {
	for _, item := range items {
		if _, err := netip.ParseAddr(item); err != nil {
			return errors.New("must be IP addresses")
		}
	}
	return nil
}

// checkSingles rejects arguments for all machines that only one machine may have.
func checkSingles(config rkev1.Config) error {
	for _, rule := range argumentRules {
		if value, err := decode(config[rule.name]); rule.single && err == nil && value != nil {
			return fmt.Errorf("spec.machineGlobalConfig: %s would be the same for all machines: remove it, or select one machine in spec.machineSelectorConfig", rule.name)
		}
	}
	return nil
}

// normalized removes the two dashes before the flags of a component, such as kubelet-arg. k3s
// removes them as well (pkg/daemons/config, GetArgs), so a flag with dashes must have the same
// effects as one without. It also removes https:// from the endpoint of a storage. Another value is
// returned as it is.
func normalized(name string, value any) any {
	if text, isText := value.(string); isText && name == "etcd-s3-endpoint" {
		return endpointHost(text)
	}
	if !strings.HasSuffix(strings.TrimSuffix(name, "+"), "-arg") {
		return value
	}
	trim := func(item any) any {
		if text, isText := item.(string); isText {
			return strings.TrimPrefix(text, "--")
		}
		return item
	}
	items, isList := value.([]any)
	if !isList {
		return trim(value)
	}
	trimmed := make([]any, 0, len(items))
	for _, item := range items {
		trimmed = append(trimmed, trim(item))
	}
	return trimmed
}

// ConfiguredLabels are the labels that the argument node-label gives to Nodes, by the name of the
// machine. A kubelet sets them only when it registers its Node, so the manager sets later changes.
func ConfiguredLabels(c Cluster) map[string]map[string]string {
	if !isGiven(c.Spec.MachineGlobalConfig, "node-label") && !isSelected(&c.Spec, "node-label") || checkBounds(&c.Spec) != nil {
		return nil
	}
	p := &planner{Cluster: c}
	p.readLayers()
	all := map[string]map[string]string{}
	for i := range c.Machines {
		given := settings{}
		for _, layer := range p.layers {
			if matches, err := layer.selector.matches(c.Machines[i].Labels); err != nil || !matches {
				continue
			}
			for _, name := range []string{"node-label", "node-label+"} {
				if value, set := layer.value(name); set {
					given[name] = value
				}
			}
		}
		labels := map[string]string{}
		for _, item := range itemsOf(given.all("node-label")...) {
			if name, value, found := strings.Cut(item, "="); found && checkNodeLabels([]string{item}) == nil {
				labels[name] = value
			}
		}
		all[c.Machines[i].Name] = labels
	}
	return all
}

// itemsOf are the items of values. A value may be a list, or one text with commas.
func itemsOf(values ...any) []string {
	var items []string
	for _, value := range values {
		list, isList := value.([]any)
		if !isList {
			list = []any{value}
		}
		for _, item := range list {
			if !isScalar(item) {
				continue // null, or a value of the wrong kind, which has its own error
			}
			for part := range strings.SplitSeq(fmt.Sprint(item), ",") {
				if part = strings.TrimSpace(part); part != "" {
					items = append(items, part)
				}
			}
		}
	}
	return items
}

// itemsOfFlag are the items of a flag in a list of a component's flags.
func itemsOfFlag(value any, flag string) []string {
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	var items []string
	for _, item := range list {
		text, _ := item.(string)
		if rest, found := strings.CutPrefix(text, flag+"="); found {
			items = append(items, itemsOf(rest)...)
		}
	}
	return items
}

// checkArgument checks a value against the rules for its argument.
func checkArgument(name string, value any) error {
	for _, rule := range argumentRules {
		if rule.check == nil || strings.TrimSuffix(name, "+") != rule.name {
			continue
		}
		where, items := name, []string(nil)
		if rule.flag == "" {
			items = itemsOf(value)
		} else {
			where, items = name+": "+rule.flag, itemsOfFlag(value, rule.flag)
		}
		if len(items) == 0 {
			continue
		}
		if err := rule.check(items); err != nil {
			return fmt.Errorf("%s %w", where, err)
		}
	}
	return nil
}

// checkArguments checks the arguments of a layer that have rules.
func checkArguments(where string, config rkev1.Config) error {
	for _, name := range slices.Sorted(maps.Keys(config)) {
		value, err := decode(config[name])
		if err != nil {
			continue // the planner reports it
		}
		if err := checkArgument(name, normalized(name, value)); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
	}
	return nil
}

// maxFixedBytes bounds a value that is kept to be compared. A checksum stands for a longer value.
const maxFixedBytes = 100

// fixedValue is the value of an argument that cannot change, in one form for all that mean the same.
func (r argumentRule) fixedValue(values ...any) string {
	text := strings.Join(itemsOf(values...), ",")
	if text == "" {
		return r.unset
	}
	if len(text) > maxFixedBytes {
		sum := sha256.Sum256([]byte(text))
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	return text
}

// changed says that an argument cannot change, and how to go on.
func (r argumentRule) changed(was string) string {
	undo := "set it to " + was + " again"
	switch {
	case was == "":
		undo = "remove it"
	case strings.HasPrefix(was, "sha256:"):
		undo = "set its earlier value again"
	}
	return fmt.Sprintf("%s cannot change after the cluster was created: %s, or create another cluster", r.name, undo)
}

// fixedOf are the values of the arguments that cannot change, and the checksum of the token, from the
// configuration in a plan. They are empty if the plan has no such configuration.
func fixedOf(p plan.Plan) (fixed map[string]string, token string) {
	at := slices.IndexFunc(p.Files, func(f plan.File) bool {
		return strings.HasPrefix(f.Path, etcDir) && strings.HasSuffix(f.Path, "/config.yaml.d/"+mainConfig)
	})
	if at < 0 {
		return nil, ""
	}
	content, err := p.Files[at].Bytes()
	if err != nil {
		return nil, ""
	}
	if _, err := measure(content, maxPlanElements, maxLevels+1); err != nil {
		return nil, ""
	}
	var s settings
	if err := json.Unmarshal(content, &s); err != nil {
		return nil, ""
	}
	fixed = map[string]string{}
	for _, rule := range argumentRules {
		if rule.fixed {
			fixed[rule.name] = rule.fixedValue(s.all(rule.name)...)
		}
	}
	return fixed, tokenSum(s)
}

// tokenSum is the checksum of the token in a configuration; empty without a token.
func tokenSum(s settings) string {
	token, _ := s["token"].(string)
	if token == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// unchanged holds a server whose new configuration changes an argument that cannot change. The
// cluster exists if its API or its Node was seen, or if the server is healthy.
func (l *look) unchanged(s settings) error {
	d := l.progress.delivered
	if d == nil || d.Fixed == nil || !l.Roles.IsServer() {
		return nil
	}
	// The server may have read its token at any time after the delivery.
	if is := tokenSum(s); d.Token != "" && is != d.Token {
		return because(rkev1.ServerTokenChangedReason, "serverToken in Secret %.100q is not the token that its server was started with. k3s and RKE2 encrypt the cluster's authorities with that token, "+
			"and do not start with another. Its server did not get the new token: set the earlier value again", l.Tokens.Secret).of(SecretKind, l.Tokens.Secret)
	}
	if !l.Established && !l.Joined && l.progress.reason != rkev1.UpToDateReason {
		return nil
	}
	for _, rule := range argumentRules {
		if was := d.Fixed[rule.name]; rule.fixed && rule.fixedValue(s.all(rule.name)...) != was {
			return because(rkev1.ConfigInvalidReason, "%s", rule.changed(was))
		}
	}
	return nil
}

// CheckChange returns an error if the new specification of an existing cluster changes an argument
// that cannot change. It compares only arguments for all machines: where a selector picks the
// machines, the planner decides, because it knows their labels.
func CheckChange(before, after *rkev1.RKEControlPlaneSpec) error {
	for _, rule := range argumentRules {
		if !rule.fixed || isSelected(before, rule.name) || isSelected(after, rule.name) {
			continue
		}
		if was := rule.globalValue(before); was != rule.globalValue(after) {
			return fmt.Errorf("spec.machineGlobalConfig: %s", rule.changed(was))
		}
	}
	return nil
}

// isSelected reports whether an argument is given to the machines that a selector picks.
func isSelected(spec *rkev1.RKEControlPlaneSpec, name string) bool {
	return slices.ContainsFunc(spec.MachineSelectorConfig, func(entry rkev1.RKESystemConfig) bool {
		return isGiven(entry.Config, name)
	})
}

// isGiven reports whether a layer has an argument.
func isGiven(config rkev1.Config, name string) bool {
	_, given := config[name]
	_, added := config[name+"+"]
	return given || added
}

// globalValue is the value of an argument for all machines.
func (r argumentRule) globalValue(spec *rkev1.RKEControlPlaneSpec) string {
	values := []any{r.absent}
	if raw, given := spec.MachineGlobalConfig[r.name]; given {
		values[0], _ = decode(raw) // a value that cannot be decoded is null
	}
	added, _ := decode(spec.MachineGlobalConfig[r.name+"+"])
	return r.fixedValue(append(values, added)...)
}
