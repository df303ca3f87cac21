package planner

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/releases"
)

const (
	// mainConfig is the file of the distribution's configuration that is ours; others beside it are
	// the user's.
	mainConfig = "50-rancher.yaml"
	// nodeConfig has labels and taints in a file of their own, because the distribution does not
	// restart for them: once the Node exists, the manager sets them.
	nodeConfig = "51-rancher-node.yaml"
)

func (p *planner) configPath(file string) string {
	return etcDir + p.release.Distribution + "/config.yaml.d/" + file
}

// config returns the distribution's configuration and the files it names: defaults, then the layers
// of the specification, then the settings that follow from the machine, which no layer can change.
func (l *look) config() (settings, []plan.File, error) {
	s, err := l.layered()
	if err != nil {
		return nil, nil, err
	}
	if err := l.listen(s); err != nil {
		return nil, nil, err
	}
	l.role(s)
	if err := l.unchanged(s); err != nil {
		return nil, nil, err
	}
	if err := l.snapshots(s); err != nil {
		return nil, nil, err
	}
	l.addresses(s)
	l.kubelet(s)
	files, err := l.contents(s)
	if err != nil {
		return nil, nil, err
	}
	if l.Spec.UnmanagedConfig {
		return s, nil, nil
	}
	text, err := encode(s)
	if err != nil {
		return nil, nil, err
	}
	registers, err := l.registers()
	if err != nil {
		return nil, nil, err
	}
	return s, append([]plan.File{plan.NewFile(l.configPath(mainConfig), "0600", text), registers}, files...), nil
}

// defaultCNI is the network of RKE2, as Rancher has it. Without the argument RKE2 takes another.
const defaultCNI = "calico"

// defaults returns the settings that the layers can change.
func (p *planner) defaults(roles Roles) settings {
	if p.release.Distribution == releases.RKE2 && roles.IsServer() {
		return settings{"cni": defaultCNI}
	}
	return settings{}
}

// layered is the configuration as the user wrote it.
func (l *look) layered() (settings, error) {
	s := l.defaults(l.Roles)
	for _, layer := range l.layers {
		matches, err := layer.selector.matches(l.Labels)
		if err != nil {
			return nil, because(rkev1.ConfigInvalidReason, "%v", err)
		}
		if !matches {
			continue
		}
		// The registry of all system images. Agents have no such argument, but their installer
		// image comes from it, too.
		if value, given := layer.value("system-default-registry"); given {
			if l.registry, _ = value.(string); l.registry != "" && !registryName.MatchString(l.registry) {
				return nil, because(rkev1.ConfigInvalidReason,
					"%s: system-default-registry must be a registry's host name with an optional port, such as registry.example.com:5000, not a URL", layer.where)
			}
		}
		kind := func(name string) (releases.Kind, bool) { return l.kindOf(name, layer.where) }
		if err := s.merge(layer.arguments, layer.where, kind); err != nil {
			return nil, because(rkev1.ConfigInvalidReason, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	return s, nil
}

// ofInit returns the values of an argument for the init node. The argument may concern the whole
// cluster and be unknown to agents.
func (p *planner) ofInit(name string) []any {
	s := p.defaults(p.init.Roles)
	for _, layer := range p.layers {
		if matches, err := layer.selector.matches(p.init.Labels); err != nil || !matches {
			continue
		}
		for _, one := range []string{name, name + "+"} {
			if value, given := layer.value(one); given {
				s[one] = value
			}
		}
	}
	return s.all(name)
}

// owned are arguments that follow from the cluster and the machine.
var owned = []string{"token", "token-file", "agent-token", "agent-token-file", "server", "cluster-init", "cluster-reset",
	"cluster-reset-restore-path", "data-dir", "with-node-id", "disable-agent", "disable-apiserver", "disable-controller-manager", "disable-etcd", "disable-scheduler"}

// ports are arguments that would move the API server or the supervisor away from the ports that
// machines and probes use: k3s' arguments, and those that RKE2 passes on.
var ports = []struct{ argument, prefix, stays string }{{"https-listen-port", "", "6443"}, {"advertise-port", "", "6443"}, {"apiserver-port", "", ""},
	{"supervisor-port", "", ""}, {"kube-apiserver-arg", "secure-port=", "6443"}}

// listen rejects ports that no client would use.
func (l *look) listen(s settings) error {
	for _, port := range ports {
		if given := s.value(port.argument, port.prefix); given != "" && given != port.stays {
			return because(rkev1.ConfigInvalidReason, "%s: machines, the manager and probes use the default ports of k3s and RKE2: remove %s",
				port.argument, cmp.Or(strings.TrimSuffix(port.prefix, "="), port.argument))
		}
	}
	if s.value("kubelet-arg", "healthz-port=") == "0" {
		return because(rkev1.ConfigInvalidReason, "kubelet-arg: Drover probes the kubelet at its healthz-port: set a value other than 0, or remove it")
	}
	return nil
}

// kindOf returns the kind of an argument, and whether this machine's configuration contains it: it
// does not if the planner sets the argument, or only the other role knows it.
func (l *look) kindOf(name, where string) (kind releases.Kind, mine bool) {
	kind = l.release.Argument(name, l.Roles.IsServer())
	switch {
	case slices.Contains(owned, name):
		l.warn("%s: Drover sets %s from the cluster; your value is ignored", where, name)
		return kind, false
	case kind != releases.Unknown:
		return kind, isRead(name, l.Roles)
	case l.release.Argument(name, !l.Roles.IsServer()) != releases.Unknown:
		return kind, false
	}
	l.warnUnknown(where, name)
	return kind, true
}

// role sets the arguments that the machine's roles require.
func (l *look) role(s settings) {
	if dir := l.Spec.DataDirectories.K8sDistro; dir != "" {
		s["data-dir"] = path.Clean(dir)
	}
	switch _, given := s["node-name"]; {
	case l.NodeName != "":
		s["node-name"] = l.NodeName
	case !given && l.InstanceName != "":
		s["node-name"] = l.InstanceName
	}
	if !l.Roles.IsServer() {
		s["server"], s["token"] = l.joinTo, pinned("node", l.Tokens.Agent, l.Authorities.Server.Certificate)
		return
	}
	s["token"], s["agent-token"] = l.Tokens.Server, l.Tokens.Agent
	switch {
	case !l.isInit():
		s["server"], s["token"] = l.joinTo, pinned("server", l.Tokens.Server, l.Authorities.Server.Certificate)
	case l.release.Distribution == releases.K3s:
		s["cluster-init"] = true // RKE2 does so automatically
	}
	if !l.Roles.Etcd {
		s["disable-etcd"] = true
	}
	if !l.Roles.ControlPlane {
		s["disable-apiserver"], s["disable-controller-manager"], s["disable-scheduler"] = true, true, true
		return
	}
	l.controlPlane(s)
}

// controlPlane sets where its components are asked, and where their certificates are.
func (l *look) controlPlane(s settings) {
	for _, component := range components {
		dir := l.dataDir() + "/server/tls/" + component.name
		argument := component.name + "-arg"
		if !s.has(argument, "cert-dir=") && !s.has(argument, "tls-cert-file=") {
			s.add(argument, "cert-dir="+dir)
			if l.release.Distribution == releases.RKE2 {
				s.add(component.name+"-extra-mount", dir+":"+dir)
			}
		}
		if !s.has(argument, "secure-port=") {
			s.add(argument, "secure-port="+component.port)
		}
	}
}

// components are the components of the control plane that serve health on their own ports. The
// directory of their certificates is set, so that probes know it. The ports are Kubernetes'.
var components = []struct{ name, port string }{{"kube-controller-manager", "10257"}, {"kube-scheduler", "10259"}}

// embedded are arguments whose value may be a file's content instead of its path. That of one may
// be the name of a Secret that has it under a key.
var embedded = []string{"audit-policy-file", cloudProviderConfig, "flannel-conf", "etcd-s3-endpoint-ca"}

const (
	cloudProviderConfig = "cloud-provider-config"
	cloudProviderKey    = "credential"
	secretScheme        = "secret://"
)

// secretOf parses secret://<namespace>:<name>. For any other form the name is empty.
func secretOf(text string) (namespace, name string) {
	if reference, is := strings.CutPrefix(text, secretScheme); is {
		namespace, name, _ = strings.Cut(reference, ":")
	}
	return namespace, name
}

// contents makes files of contents, and puts their paths in their place.
func (l *look) contents(s settings) ([]plan.File, error) {
	var files []plan.File
	for _, name := range embedded {
		content, _ := s[name].(string)
		if content == "" || path.IsAbs(content) && !strings.Contains(content, "\n") {
			continue
		}
		if name == cloudProviderConfig && strings.HasPrefix(content, secretScheme) {
			var err error
			if content, err = l.secretContent(content); err != nil {
				return nil, err
			}
		}
		file := plan.NewFile(l.dataDir()+"/etc/config-files/"+name, "0600", []byte(content))
		s[name] = file.Path
		files = append(files, file)
	}
	return files, nil
}

// secretContent returns the content of a Secret that is named instead of a content and is shared
// with the cluster.
func (l *look) secretContent(reference string) (string, error) {
	namespace, name := secretOf(reference)
	if namespace != l.Namespace || name == "" {
		return "", because(rkev1.ConfigInvalidReason, "%s does not name a Secret in the control plane's namespace: create one there with the key %s, and write %s%s:NAME",
			cloudProviderConfig, cloudProviderKey, secretScheme, l.Namespace)
	}
	object, err := l.shared(cloudProviderConfig, SecretKind, name)
	if err != nil {
		return "", err
	}
	content := object.Data[cloudProviderKey]
	if len(content) == 0 {
		return "", because(rkev1.FileSourceInvalidReason, "%s: Secret %.100q has no value under the key %s", cloudProviderConfig, name, cloudProviderKey)
	}
	return string(content), nil
}

// selector picks machines by their labels. It is parsed once, and asked for each machine.
type selector struct {
	where  string
	parsed labels.Selector
	err    error
}

// newSelector parses one; without any all machines are picked.
func newSelector(where string, given *metav1.LabelSelector) *selector {
	s := &selector{where: where, parsed: labels.Everything()}
	if given == nil {
		return s
	}
	var err error
	if s.parsed, err = metav1.LabelSelectorAsSelector(given); err != nil {
		s.err = fmt.Errorf("%s: its selector: %s", where, plan.Head(oneLine(err.Error()), 300))
	}
	return s
}

func (s *selector) matches(set map[string]string) (bool, error) {
	return s.err == nil && s.parsed.Matches(labels.Set(set)), s.err
}

// layer is the configuration of the machines that a selector picks.
type layer struct {
	where     string
	selector  *selector
	arguments []argument
}

// argument is an argument of a layer, or the error why it is invalid. All machines share the value;
// it is never changed.
type argument struct {
	name  string
	value any
	err   error
}

func newLayer(where string, selector *selector, config rkev1.Config) layer {
	l := layer{where: where, selector: selector}
	for _, name := range slices.Sorted(maps.Keys(config)) {
		one := argument{name: name}
		if !key.MatchString(name) {
			one.err = fmt.Errorf("%.60q is not a valid name of an argument", name)
		} else if one.value, one.err = decode(config[name]); one.err != nil {
			one.err = fmt.Errorf("%s %w", name, one.err)
		} else {
			one.value = normalized(name, one.value)
			one.err = checkArgument(name, one.value)
		}
		l.arguments = append(l.arguments, one)
	}
	return l
}

func (l layer) value(name string) (value any, given bool) {
	at := slices.IndexFunc(l.arguments, func(a argument) bool { return a.name == name })
	if at < 0 {
		return nil, false
	}
	return l.arguments[at].value, true
}

// bounded rejects a specification that would cost more than any cluster needs, because each machine
// is planned with all of it; then it is read.
func (p *planner) bounded() *fault {
	if err := checkBounds(&p.Spec); err != nil {
		return because(rkev1.ConfigInvalidReason, "%v", err)
	}
	if len(NewUses(p.Spec)) > MaxReferences {
		return because(rkev1.ReferencesExceededReason,
			"spec names more than %d Secrets and ConfigMaps in registries, machineSelectorFiles, etcd and cloud-provider-config (limit reached)", MaxReferences)
	}
	if key := p.TooLarge; key != nil {
		return because(rkev1.ReferencesExceededReason, "the data used from the Secrets and ConfigMaps that spec names exceeds %d bytes with the %s %.100q", MaxObjectBytes, key.Kind, key.Name)
	}
	p.readLayers()
	return nil
}

func (p *planner) readLayers() {
	p.layers = []layer{newLayer("spec.machineGlobalConfig", newSelector("spec.machineGlobalConfig", nil), p.Spec.MachineGlobalConfig)}
	for i, entry := range p.Spec.MachineSelectorConfig {
		where := fmt.Sprintf("spec.machineSelectorConfig[%d]", i)
		p.layers = append(p.layers, newLayer(where+".config", newSelector(where, entry.MachineLabelSelector), entry.Config))
	}
	for i, entry := range p.Spec.MachineSelectorFiles {
		p.files = append(p.files, newSelector(fmt.Sprintf("spec.machineSelectorFiles[%d]", i), entry.MachineLabelSelector))
	}
}
