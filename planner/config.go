package planner

import (
	"path"
	"slices"
	"strings"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/releases"
)

// configPath is the file of the distribution's configuration that is ours; others beside it are the user's.
func (p *planner) configPath() string {
	return etcDir + p.release.Distribution + "/config.yaml.d/50-rancher.yaml"
}

// config is the distribution's configuration and the files it names: defaults, then the layers of the specification, then what follows from
// the machine itself, which nothing of the former can change.
func (l *look) config() (settings, []plan.File, error) {
	s, err := l.layered()
	if err != nil {
		return nil, nil, err
	}
	l.role(s)
	if err := l.snapshots(s); err != nil {
		return nil, nil, err
	}
	l.addresses(s)
	if err := l.node(s); err != nil {
		return nil, nil, err
	}
	files := l.contents(s)
	if l.Spec.UnmanagedConfig {
		return s, nil, nil
	}
	text, err := encode(s)
	if err != nil {
		return nil, nil, err
	}
	return s, append([]plan.File{plan.NewFile(l.configPath(), "0600", text)}, files...), nil
}

// layered is the configuration as the user wrote it.
func (l *look) layered() (settings, error) {
	s := settings{}
	if l.release.Distribution == releases.RKE2 && l.Roles.IsServer() {
		s["cni"] = "calico" // as Rancher has it
	}
	for _, layer := range l.layers {
		matches, err := layer.selector.matches(l.Labels)
		if err != nil {
			return nil, because(rkev1.ConfigInvalidReason, "%v", err)
		}
		if !matches {
			continue
		}
		l.registryOf(layer)
		kind := func(name string) (releases.Kind, bool) { return l.kindOf(name, layer.where) }
		if err := s.merge(layer.arguments, layer.where, kind); err != nil {
			return nil, because(rkev1.ConfigInvalidReason, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	return s, nil
}

// registryOf takes the registry of all system images from a layer. An agent has no such argument, and its installer comes from there all the same.
func (l *look) registryOf(from layer) {
	if value, given := from.value("system-default-registry"); given {
		l.registry, _ = value.(string)
	}
}

// owned are arguments that follow from the cluster and the machine.
var owned = []string{"token", "token-file", "agent-token", "agent-token-file", "server", "cluster-init", "cluster-reset",
	"cluster-reset-restore-path", "data-dir", "with-node-id"}

// kindOf is what an argument takes, and whether this machine's configuration has it: not if the planner sets it, or only the other role knows it.
func (l *look) kindOf(name, where string) (kind releases.Kind, mine bool) {
	kind = l.release.Argument(name, l.Roles.IsServer())
	switch {
	case slices.Contains(owned, name):
		l.warn("%s: %s follows from the cluster and cannot be set; it is passed over", where, name)
		return kind, false
	case kind != releases.Unknown:
		return kind, true
	case l.release.Argument(name, !l.Roles.IsServer()) != releases.Unknown:
		return kind, false
	}
	l.warn("%s: %s is no argument that %s is known to have; it is passed on", where, name, l.release.Version)
	return kind, true
}

// role sets what the machine's roles ask for.
func (l *look) role(s settings) {
	if dir := l.Spec.DataDirectories.K8sDistro; dir != "" {
		s["data-dir"] = path.Clean(dir)
	}
	if l.NodeName != "" {
		s["node-name"] = l.NodeName
	}
	if !l.isInit() {
		s["server"] = l.joinTo
	}
	if !l.Roles.IsServer() {
		s["token"] = pinned("node", l.Tokens.Agent, l.Authorities.Server.Certificate)
		return
	}
	s["token"], s["agent-token"] = l.Tokens.Server, l.Tokens.Agent
	switch {
	case !l.isInit():
		s["token"] = pinned("server", l.Tokens.Server, l.Authorities.Server.Certificate)
	case l.release.Distribution == releases.K3s:
		s["cluster-init"] = true // RKE2 does so by itself
	}
	if !l.Roles.Etcd {
		s["disable-etcd"] = true
	}
	if !l.Roles.ControlPlane {
		s["disable-apiserver"], s["disable-controller-manager"], s["disable-scheduler"] = true, true, true
		return
	}
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

// components are those of the control plane that are asked on a port of their own; the directory of their certificates is given, so that probes
// know it. The ports are Kubernetes'.
var components = []struct{ name, port string }{{"kube-controller-manager", "10257"}, {"kube-scheduler", "10259"}}

// embedded are arguments whose value may be a file's content instead of its path.
var embedded = []string{"audit-policy-file", "cloud-provider-config", "flannel-conf", "etcd-s3-endpoint-ca"}

// contents makes files of contents, and puts their paths in their place.
func (l *look) contents(s settings) []plan.File {
	var files []plan.File
	for _, name := range embedded {
		content, _ := s[name].(string)
		if content == "" || path.IsAbs(content) && !strings.Contains(content, "\n") {
			continue
		}
		file := plan.NewFile(l.dataDir()+"/etc/config-files/"+name, "0600", []byte(content))
		s[name] = file.Path
		files = append(files, file)
	}
	return files
}
