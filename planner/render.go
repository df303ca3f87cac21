package planner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/releases"
)

// Directories where Rancher's planner has them.
const (
	defaultDataDir = "/var/lib/rancher/"
	etcDir         = "/etc/rancher/"
)

// dataDir returns the distribution's data directory.
func (p *planner) dataDir() string {
	if dir := p.Spec.DataDirectories.K8sDistro; dir != "" {
		return path.Clean(dir)
	}
	return defaultDataDir + p.release.Distribution
}

// render returns the machine's plan: first the distribution's files, then its installer, which
// starts or restarts it depending on the stamps.
func (l *look) render() (plan.Plan, error) {
	config, files, err := l.config()
	if err != nil {
		return plan.Plan{}, err
	}
	for _, part := range []struct {
		wanted bool
		render func() ([]plan.File, error)
	}{
		{l.isInit(), l.Authorities.plan(l.dataDir())},
		{!l.Spec.UnmanagedConfig, l.registries},
		{l.Roles.ControlPlane, l.addons},
		{l.Roles.ControlPlane, l.charts},
		{true, l.environment},
		{true, l.selectedFiles},
	} {
		if !part.wanted {
			continue
		}
		more, err := part.render()
		if err != nil {
			return plan.Plan{}, err
		}
		files = append(files, more...)
		if size := contentBytes(files); size > maxPlanBytes {
			return plan.Plan{}, because(rkev1.ConfigInvalidReason, "the files of its plan have %d bytes, and a Secret holds at most %d: use fewer or smaller files", size, maxPlanBytes)
		}
	}
	if path := twice(files); path != "" {
		return plan.Plan{}, because(rkev1.ConfigInvalidReason, "its plan has the file %s twice: change the path in spec.machineSelectorFiles", path)
	}
	instruction, err := l.install(config, files)
	if err != nil {
		return plan.Plan{}, err
	}
	if l.Spec.UnmanagedConfig {
		config = nil
	}
	return plan.Plan{Files: files, Instructions: []plan.Instruction{instruction}, Probes: l.probes(config)}, nil
}

// contentBytes is the size of the files in a plan. The stamps of a plan copy them three times more.
func contentBytes(files []plan.File) int {
	size := 0
	for _, file := range files {
		size += len(file.Path) + len(file.Content)
	}
	return size
}

func twice(files []plan.File) string {
	seen := map[string]bool{}
	for _, file := range files {
		clean := path.Clean(file.Path)
		if seen[clean] {
			return file.Path
		}
		seen[clean] = true
	}
	return ""
}

// addons returns the manifests that the distribution applies to its cluster. The file exists even
// if it is empty, so that removed objects are deleted.
func (l *look) addons() ([]plan.File, error) {
	file := plan.NewFile(l.dataDir()+"/server/manifests/rancher/addons.yaml", "0600", []byte(l.Spec.AdditionalManifest))
	file.Dynamic = true
	return []plan.File{file}, nil
}

// environment is the agent's environment file. Each plan has it, also without variables, so that the
// agent and the installer lose the variables that the user removes. The installer writes the
// distribution's own file from its environment, and restarts the distribution if that file changes,
// so a change is not in the restart stamp.
func (l *look) environment() ([]plan.File, error) {
	variables := make([]plan.EnvVar, 0, len(l.Spec.AgentEnvVars))
	for i, v := range l.Spec.AgentEnvVars {
		if err := plan.EnvVar(v).Validate(); err != nil {
			return nil, because(rkev1.ConfigInvalidReason, "spec.agentEnvVars[%d]: %v", i, err)
		}
		variables = append(variables, plan.EnvVar(v))
	}
	file := plan.NewFile(plan.EnvironmentFile, "0600", plan.EncodeEnvironment(variables))
	file.Dynamic, file.Minor = true, true
	return []plan.File{file}, nil
}

// install is the one instruction: the installer starts the distribution, and restarts it when
// RESTART_STAMP is another than at its last run.
func (l *look) install(config settings, files []plan.File) (plan.Instruction, error) {
	name := strings.ToUpper(l.release.Distribution)
	image := l.release.Image(l.registry)
	restart := stamp{Generation: l.Spec.ProvisionGeneration, Image: image}
	for _, file := range files {
		if !file.Dynamic {
			restart.Files = append(restart.Files, [2]string{file.Path, file.Content})
		}
	}
	// A node is not drained for another server to join.
	drain, joining := restart, maps.Clone(config)
	delete(joining, "server")
	delete(joining, "cluster-init")
	content, err := json.Marshal(joining)
	if err != nil {
		return plan.Instruction{}, fmt.Errorf("encoding the configuration without its server: %w", err)
	}
	drain.Files = slices.Clone(restart.Files)
	for i := range drain.Files {
		if drain.Files[i][0] == l.configPath(mainConfig) {
			drain.Files[i][1] = string(content)
		}
	}
	env := make([]string, 0, len(l.Spec.AgentEnvVars)+4)
	for _, v := range l.Spec.AgentEnvVars {
		env = append(env, v.Name+"="+v.Value)
	}
	env = append(env, name+"_DATA_DIR="+l.dataDir(), "RESTART_STAMP="+restart.sum(), "DRAIN_HASH="+drain.sum())
	if !l.Roles.IsServer() {
		env = append(env, "INSTALL_"+name+"_EXEC=agent")
	}
	return plan.Instruction{Command: plan.Command{Name: "install", Image: image, Env: env, Command: "sh", Args: []string{"-c", "run.sh"}},
		SaveOutput: true}, nil // an agent that is not ours reports nothing else about a failure
}

// stamp holds all values whose change requires a restart of the distribution.
type stamp struct {
	Generation int64       `json:"generation"`
	Image      string      `json:"image"`
	Files      [][2]string `json:"files"`
}

func (s stamp) sum() string {
	text, err := json.Marshal(s)
	if err != nil {
		return "" // texts and a number are always encoded
	}
	return plan.Checksum(text)
}

// encode is JSON with sorted keys, the same bytes for the same value.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encoding a file: %w", err)
	}
	return out.Bytes(), nil
}

// probes returns the probes of the node's health. The ports belong to Kubernetes' components,
// etcd's metrics and calico's health.
func (l *look) probes(config settings) map[string]plan.Probe {
	tls := l.dataDir() + "/server/tls/"
	all := map[string]plan.Probe{}
	if l.Roles.ControlPlane {
		all["kube-apiserver"] = l.probe(plan.HTTPGet{URL: "https://:6443/readyz", CACert: tls + "server-ca.crt",
			ClientCert: tls + "client-kube-apiserver.crt", ClientKey: tls + "client-kube-apiserver.key"})
		for _, component := range components {
			argument := component.name + "-arg"
			dir := cmp.Or(config.value(argument, "cert-dir="), tls+component.name)
			certificate := cmp.Or(config.value(argument, "tls-cert-file="), dir+"/"+component.name+".crt")
			port := cmp.Or(config.value(argument, "secure-port="), component.port)
			all[component.name] = l.probe(plan.HTTPGet{URL: "https://:" + port + "/healthz", CACert: certificate})
		}
	}
	isRKE2 := l.release.Distribution == releases.RKE2
	if isRKE2 {
		l.probesOfRKE2(all)
	}
	if isRKE2 || l.Roles != onlyEtcd {
		all["kubelet"] = l.probe(plan.HTTPGet{URL: "http://:" + cmp.Or(config.value("kubelet-arg", "healthz-port="), "10248") + "/healthz"})
	}
	return all
}

var onlyEtcd = Roles{Etcd: true}

// probesOfRKE2 adds the probes of components that k3s does not have. Only the servers'
// configuration names calico, so that workers take it from the init node's.
func (l *look) probesOfRKE2(all map[string]plan.Probe) {
	if l.Roles.Etcd {
		all["etcd"] = l.probe(plan.HTTPGet{URL: "http://:2381/health"})
	}
	if l.Roles != onlyEtcd && slices.ContainsFunc(l.ofInit("cni"), func(item any) bool {
		text, _ := item.(string)
		return slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '+' }), "calico")
	}) {
		all["calico"] = l.probe(plan.HTTPGet{URL: "http://:9099/liveness"})
	}
}

// probe asks on the loopback address of the preferred network.
func (l *look) probe(get plan.HTTPGet) plan.Probe {
	host := "127.0.0.1"
	if n := l.Spec.Networking; n != nil {
		switch n.StackPreference {
		case rkev1.PreferIPv6:
			host = "[::1]"
		case rkev1.PreferDual:
			host = "localhost"
		}
	}
	get.URL = strings.Replace(get.URL, "://:", "://"+host+":", 1)
	return plan.Probe{InitialDelaySeconds: 1, TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: 5, HTTPGet: get}
}

// value returns the text after a prefix in a list; the last match counts.
func (s settings) value(name, prefix string) string {
	found := ""
	for _, item := range s.all(name) {
		if rest, ok := strings.CutPrefix(fmt.Sprint(item), prefix); ok {
			found = rest
		}
	}
	return found
}
