package planner_test

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/planner"
	"github.com/drover-project/drover/releases"
	"github.com/drover-project/drover/testkit/golden"
)

// world is a cluster whose agents do what the story says.
type world struct {
	t        *testing.T
	cluster  planner.Cluster
	machines map[string]*planner.Machine
	out      bytes.Buffer
}

var (
	//go:embed testdata/registry.crt
	certificate string
	//go:embed testdata/registry.key
	certificateKey string
	// certificates stand in for names that lines of stories have in their place.
	certificates = strings.NewReplacer("$CA_BUNDLE", base64.StdEncoding.EncodeToString([]byte(certificate)),
		"$CERTIFICATE", strconv.Quote(certificate), "$KEY", strconv.Quote(certificateKey))
)

// newWorld is a cluster of which everything is there but machines.
func newWorld(t *testing.T) *world {
	t.Helper()
	catalogue, err := releases.Default()
	require.NoError(t, err)
	pair := func(name string) planner.KeyPair {
		return planner.KeyPair{Certificate: []byte(name + " certificate\n"), Key: []byte(name + " key\n")}
	}
	return &world{t: t, machines: map[string]*planner.Machine{}, cluster: planner.Cluster{
		Name: "prod", Namespace: "shop", Releases: catalogue, InfrastructureProvisioned: true,
		Spec:   rkev1.RKEControlPlaneSpec{KubernetesVersion: "v1.36.3+k3s1"},
		Tokens: planner.Tokens{Server: "server-password", Agent: "agent-password"},
		Authorities: planner.Authorities{Server: pair("server"), Client: pair("client"), Proxy: pair("proxy"), EtcdServer: pair("etcd"),
			EtcdPeer: pair("peer"), ServiceAccountKey: []byte("sa key\n")},
		Objects: map[planner.ObjectKey]planner.Object{},
	}}
}

// given is what a story says of a machine; what it does not say is as it mostly is.
type given struct {
	Roles       string
	ID          *string
	OS          string
	NodeName    string
	Instance    string
	Deleting    bool
	Provisioned *bool
	ProviderID  *string
	Internal    *[]string
	External    []string
	Labels      map[string]string
	NodeLabels  map[string]string
	NodeTaints  []corev1.Taint
	Invalid     string
	Joined      bool
	Kubelet     string
	NoSecret    bool
	AgentServer string
}

// machine makes a machine, or another of it; its plan Secret stays.
func (w *world) machine(name, text string) {
	var g given
	require.NoError(w.t, yaml.UnmarshalStrict([]byte(text), &g), text)
	labels := map[string]string{}
	for role := range strings.FieldsSeq(g.Roles) {
		labels["rke.cattle.io/"+role+"-role"] = "true"
	}
	maps.Copy(labels, g.Labels)
	number := name[strings.LastIndex(name, "-")+1:]
	m := &planner.Machine{Name: name, ID: ptr.Deref(g.ID, "id-"+name), Labels: labels, Roles: planner.RolesOf(labels), OS: g.OS, NodeName: g.NodeName, InstanceName: g.Instance,
		Deleting: g.Deleting, Provisioned: ptr.Deref(g.Provisioned, true), ProviderID: ptr.Deref(g.ProviderID, "digitalocean://"+number),
		InternalIPs: ptr.Deref(g.Internal, []string{"10.0.0." + number}), ExternalIPs: g.External, NodeLabels: g.NodeLabels, NodeTaints: g.NodeTaints,
		Invalid: g.Invalid, Joined: g.Joined, KubeletVersion: g.Kubelet}
	if old := w.machines[name]; old != nil {
		m.Secret = old.Secret
	}
	if m.Secret == nil && !g.NoSecret {
		m.Secret = &planner.Secret{Data: map[string][]byte{plan.KeyAgentPublicKey: []byte("key of " + name)}}
	}
	if m.Secret != nil {
		m.Secret.AgentServer = g.AgentServer
	}
	w.machines[name] = m
}

// snapshot is what the planner sees; machines come in any order.
func (w *world) snapshot() planner.Cluster {
	c := w.cluster
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(w.machines))) {
		m := *w.machines[name]
		if m.Secret != nil {
			seen := *m.Secret
			seen.Data, seen.Delivered = maps.Clone(seen.Data), planner.NewDelivered(seen.Data[plan.KeyPlan])
			delete(seen.Data, plan.KeyPlan)
			m.Secret = &seen
		}
		c.Machines = append(c.Machines, m)
	}
	return c
}

// plan lets the planner look once, writes what it delivers, and tells.
func (w *world) plan() {
	r := planner.Plan(w.snapshot())
	fmt.Fprintf(&w.out, "%s: %s\n", r.Reason, r.Message)
	for _, v := range r.Machines {
		fmt.Fprintf(&w.out, "  %s %s: %s\n", v.Machine, v.Reason, v.Message)
		if v.Delivery != nil {
			w.deliver(w.machines[v.Machine].Secret, *v.Delivery)
		}
	}
	for _, warning := range r.Warnings {
		fmt.Fprintf(&w.out, "  warning: %s\n", warning)
	}
}

func (w *world) deliver(s *planner.Secret, d planner.Delivery) {
	before := map[string]plan.File{}
	if old, err := plan.Decode(s.Data[plan.KeyPlan]); err == nil {
		for _, file := range old.Files {
			before[file.Path] = file
		}
	}
	raw := d.Plan
	if raw == nil {
		raw = s.Data[plan.KeyPlan]
	}
	now, err := plan.Decode(raw)
	require.NoError(w.t, err)
	for _, file := range now.Files {
		if len(before) > 0 && before[file.Path] != file {
			fmt.Fprintf(&w.out, "    changed %s\n", file.Path)
		}
		delete(before, file.Path)
	}
	for path := range before {
		fmt.Fprintf(&w.out, "    dropped %s\n", path)
	}
	data := d.Data(s.Data)
	require.NoError(w.t, plan.MayWrite(plan.Planner, s.Data, data), "the planner writes its own keys only")
	s.Data, s.InitNode, s.JoinedTo, s.Retried = data, d.InitNode, d.JoinedTo, d.Retried
}

// agent is what an agent reports.
func (w *world) agent(name, does, why string) {
	s := w.machines[name].Secret
	checksum := plan.Checksum(s.Data[plan.KeyPlan])
	status := plan.AgentStatus{Checksum: checksum}
	s.Data = maps.Clone(s.Data)
	set := func(key, value string) { s.Data[key] = []byte(value) }
	switch does {
	case "takes":
		set(plan.KeyState, "in-progress")
		status.Running = why
	case "applies", "is-well":
		set(plan.KeyState, "succeeded")
		set(plan.KeyAppliedChecksum, checksum)
		p, err := plan.Decode(s.Data[plan.KeyPlan])
		require.NoError(w.t, err)
		statuses := map[string]plan.ProbeStatus{}
		for probe := range p.Probes {
			statuses[probe] = plan.ProbeStatus{Healthy: does == "is-well"}
		}
		set(plan.KeyProbeStatuses, marshal(w.t, statuses))
	case "fails", "gives-up":
		count, _ := strconv.Atoi(string(s.Data[plan.KeyFailureCount]))
		status.Attempt, status.Step, status.Message = count+1, "instruction install", why
		set(plan.KeyFailureCount, strconv.Itoa(count+1))
		set(plan.KeyFailedChecksum, checksum)
		set(plan.KeyState, map[string]string{"fails": "in-progress", "gives-up": "failed"}[does])
	case "is-stuck": // at no step of the plan
		status.Message = why
	case "has-addresses":
		status.Addresses = strings.Fields(why)
	case "loses-proxy":
		status.Proxy = why
	case "sickens": // of one probe
		var statuses map[string]plan.ProbeStatus
		require.NoError(w.t, json.Unmarshal(s.Data[plan.KeyProbeStatuses], &statuses))
		probe, message, _ := strings.Cut(why, " ")
		statuses[probe] = plan.ProbeStatus{FailureCount: 5}
		status.Probes = map[string]string{probe: message}
		set(plan.KeyProbeStatuses, marshal(w.t, statuses))
	default:
		require.Fail(w.t, "an agent does not do so", does)
	}
	set(plan.KeyAgentStatus, marshal(w.t, status))
}

func marshal(tb testing.TB, value any) string {
	tb.Helper()
	text, err := json.Marshal(value)
	require.NoError(tb, err)
	return string(text)
}

// spec puts fields of the specification in the place of those that were there; null takes one away.
func (w *world) spec(text string) {
	fields, patch := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	require.NoError(w.t, json.Unmarshal([]byte(marshal(w.t, w.cluster.Spec)), &fields))
	asJSON, err := yaml.YAMLToJSON([]byte(certificates.Replace(text)))
	require.NoError(w.t, err, text)
	require.NoError(w.t, json.Unmarshal(asJSON, &patch))
	for name, value := range patch {
		if fields[name] = value; string(value) == "null" {
			delete(fields, name)
		}
	}
	w.cluster.Spec = rkev1.RKEControlPlaneSpec{}
	decoder := json.NewDecoder(strings.NewReader(marshal(w.t, fields)))
	decoder.DisallowUnknownFields()
	require.NoError(w.t, decoder.Decode(&w.cluster.Spec), text)
}

// object puts a Secret or a ConfigMap there.
func (w *world) object(kind, name, text string) {
	var o struct {
		Type, Clusters string
		Data           map[string]string
	}
	require.NoError(w.t, yaml.UnmarshalStrict([]byte(certificates.Replace(text)), &o))
	data := map[string][]byte{}
	for key, value := range o.Data {
		data[key] = []byte(value)
	}
	w.cluster.Objects[planner.ObjectKey{Kind: kind, Name: name}] = planner.Object{Type: o.Type, Data: data, AuthorizedClusters: o.Clusters}
}

// show prints a part of a machine's plan: a file, its instruction or its probes.
func (w *world) show(name, what string) {
	p, err := plan.Decode(w.machines[name].Secret.Data[plan.KeyPlan])
	require.NoError(w.t, err)
	for _, line := range parts(w.t, p)[what] {
		fmt.Fprintf(&w.out, "    %s\n", line)
	}
}

// parts are a plan's parts by name, as lines to read.
func parts(tb testing.TB, p plan.Plan) map[string][]string {
	tb.Helper()
	all := map[string][]string{}
	for _, file := range p.Files {
		content, err := file.Bytes()
		require.NoError(tb, err)
		head := fmt.Sprintf("%s %s directory=%t dynamic=%t minor=%t", file.Action, file.Permissions, file.Directory, file.Dynamic, file.Minor)
		all[file.Path] = append([]string{head}, strings.Split(strings.TrimRight(string(content), "\n"), "\n")...)
		all["files"] = append(all["files"], strings.TrimSpace(file.Action+" "+file.Path))
	}
	for _, instruction := range p.Instructions {
		all["install"] = append(all["install"], instruction.Image, instruction.Command.Command+" "+strings.Join(instruction.Args, " "))
		all["install"] = append(all["install"], instruction.Env...)
	}
	for _, probe := range slices.Sorted(maps.Keys(p.Probes)) {
		all["probes"] = append(all["probes"], probe+" "+marshal(tb, p.Probes[probe]))
	}
	return all
}

// do carries out a line of a story.
func (w *world) do(line string) {
	words := strings.SplitN(line, " ", 4)
	rest := func(n int) string {
		parts := strings.SplitN(line, " ", n+1)
		if len(parts) <= n {
			return "{}"
		}
		return parts[n]
	}
	switch words[0] {
	case "plan":
		w.plan()
	case "spec":
		w.spec(rest(1))
	case "machine":
		w.machine(words[1], rest(2))
	case "gone":
		delete(w.machines, words[1])
	case "object":
		w.object(words[1], words[2], rest(3))
	case "agent":
		w.agent(words[1], words[2], strings.TrimSuffix(rest(3), "{}"))
	case "well":
		for name, m := range w.machines {
			if m.Secret != nil && len(m.Secret.Data[plan.KeyPlan]) > 0 {
				w.agent(name, "is-well", "")
			}
		}
	case "show":
		w.show(words[1], words[2])
	case "data":
		w.machines[words[1]].Secret.Data[words[2]] = []byte(rest(3))
	case "cluster":
		w.change(words[1])
	case "silent": // nobody has called for it
		delete(w.machines[words[1]].Secret.Data, plan.KeyAgentPublicKey)
	case "new-secret": // made anew after somebody deleted it
		w.machines[words[1]].Secret = &planner.Secret{Data: map[string][]byte{plan.KeyAgentPublicKey: []byte("key of " + words[1])}}
	case "falls-silent":
		w.machines[words[1]].Secret.SilentSince = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	case "another-cluster": // without machines
		w.machines = map[string]*planner.Machine{}
	case "retry": // as drover retry does
		w.machines[words[1]].Retry = words[2]
	case "late":
		w.machines[words[1]].Secret.Overdue = true
	case "calls":
		w.machines[words[1]].Secret.SilentSince = time.Time{}
	case "no-secret":
		w.machines[words[1]].Secret = nil
	case "unmark": // as somebody who edits labels does
		w.machines[words[1]].Secret.InitNode = false
	default:
		require.Fail(w.t, "no step", line)
	}
}

// change changes what is known of the cluster.
func (w *world) change(what string) {
	switch what {
	case "bootstrapped":
		w.cluster.Bootstrapped = true
	case "made-by-server-1":
		w.cluster.Bootstrapped, w.cluster.MadeBy = true, "id-server-1"
	case "older-state":
		w.cluster.OlderState = "one-rke-state"
	case "unprovisioned":
		w.cluster.InfrastructureProvisioned = false
	case "tokenless":
		w.cluster.Tokens.Agent = ""
	case "authorityless":
		w.cluster.Authorities.EtcdPeer.Key = nil
	case "catalogueless":
		w.cluster.Releases, w.cluster.ReleasesError = nil, "line 7: it has a YAML alias"
	case "endpoint":
		w.cluster.Endpoint = "api.example.com"
	default:
		require.Fail(w.t, "no change", what)
	}
}

// TestStories: each file is steps, and what the planner says of them.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/stories/*.txtar")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 25)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			require.NotEmpty(t, archive.Comment, "a story says what it is about")
			require.Equal(t, "steps", archive.Files[0].Name)
			w := newWorld(t)
			for line := range strings.Lines(string(archive.Files[0].Data)) {
				if line = strings.TrimSpace(line); line == "" {
					continue
				}
				fmt.Fprintf(&w.out, "> %s\n", line)
				w.do(line)
			}
			archive.Files = append(archive.Files[:1], txtar.File{Name: "out", Data: w.out.Bytes()})
			golden.Require(t, file, string(txtar.Format(archive)))
		})
	}
}
