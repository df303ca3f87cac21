package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
)

// manifestOptions are the flags of `manager manifests`.
type manifestOptions struct {
	settings charts.Settings
	jobs     jobOptions
	// clientCA is the file of API servers' CA certificates, read here.
	clientCA string
	// memoryLimit of the manager's container; the chart's when empty.
	memoryLimit string
	// managerArgs are handed on as they are.
	managerArgs []string
}

// leastMemory is the smallest memory limit of the manager: its requests ask for half of it.
var leastMemory = resource.MustParse("256Mi")

func manifestsCommand() *cobra.Command {
	o := &manifestOptions{jobs: newJobOptions(func(string) (string, bool) { return "", false })}
	cmd := &cobra.Command{
		Use:   "manifests",
		Short: "Print the objects that run the manager in a cluster, for kubectl apply --server-side -f -",
		Long: "Print the objects that run the manager in a cluster. Flags about Jobs mean the same as the manager's own.\n" +
			"The file given as --job-ca-file is read here and becomes a ConfigMap. With --with-crds the output serves as\n" +
			"clusterctl's infrastructure-components.yaml; --server-url and --agents-service-type may then be variables\n" +
			"of clusterctl's, such as '${DROVER_SERVER_URL:=}'.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.print(cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.settings.Image, "image", "", "image of the manager (default: --machine-image)")
	flags.StringVar(&o.settings.Namespace, "namespace", charts.DefaultNamespace, "namespace of the manager")
	flags.Int32Var(&o.settings.Replicas, "replicas", 1, "number of managers; one of them is active")
	flags.StringVar(&o.memoryLimit, "memory-limit", "", "memory limit of the manager's container, at least 256Mi; docs/install.md says how much memory it needs (default 1Gi)")
	flags.BoolVar(&o.settings.WithCRDs, "with-crds", false, "print Drover's CRDs too")
	flags.StringVar(&o.settings.CAPI, "capi", string(capi.Auto), "provider of Cluster API's core: auto, embedded or external")
	flags.StringVar(&o.clientCA, "webhook-client-ca-file", "", "PEM file of the CA certificates that verify the API server's client certificate at the webhooks; it becomes a ConfigMap")
	flags.StringArrayVar(&o.settings.Webhooks.APIServerCIDRs, "api-server-cidr", nil, "addresses that API servers call from, such as 192.0.2.10/32; a NetworkPolicy allows only these addresses to reach the webhooks; may be repeated")
	flags.StringVar(&o.settings.Agents.ServerURL, "server-url", "", "URL of Service drover-agents for servers, such as https://drover.example.org; machines with an RKEBootstrap need it (default: no such Service)")
	flags.StringVar(&o.settings.Agents.ServiceType, "agents-service-type", "", "type of Service drover-agents: ClusterIP, NodePort or LoadBalancer (default: NodePort with --agents-node-port, else the cluster's)")
	flags.Int32Var(&o.settings.Agents.NodePort, "agents-node-port", 0, "port of Service drover-agents on nodes (default: any)")
	flags.StringArrayVar(&o.managerArgs, "manager-arg", nil, "a further flag of the manager, such as --manager-arg=--v=1; may be repeated")
	o.jobs.addFlags(flags)
	for _, name := range []string{"image-pull-policy", "image-pull-secrets", "node-selector", "tolerations"} {
		flag := flags.Lookup(name) // of the Deployment's pods too
		flag.Usage = strings.Replace(flag.Usage, "Jobs", "the manager and Jobs", 1)
	}
	return cmd
}

func (o *manifestOptions) print(out io.Writer) error {
	o.jobs.image = cmp.Or(o.jobs.image, o.settings.Image)
	o.settings.Image = cmp.Or(o.settings.Image, o.jobs.image)
	if err := o.validate(); err != nil {
		return err
	}
	jobs, err := o.jobs.settings()
	if err != nil {
		return err
	}
	s := o.settings
	s.ImagePullPolicy, s.ImagePullSecrets, s.NodeSelector, s.Tolerations = o.jobs.pullPolicy, o.jobs.pullSecrets, o.jobs.nodeSelector, o.jobs.tolerations
	s.Jobs = charts.JobSettings{
		Image: o.jobs.image, HTTPProxy: o.jobs.httpProxy, HTTPSProxy: o.jobs.httpsProxy, NoProxy: o.jobs.noProxy, CABundle: string(jobs.CABundle),
	}
	pem, _, err := readClientCA(o.clientCA)
	if err != nil {
		return err
	}
	s.Webhooks.ClientCA = string(pem)
	if o.memoryLimit != "" {
		s.Resources = map[string]any{"limits": map[string]any{"memory": o.memoryLimit}}
	}
	s.Args = slices.Concat(o.jobs.furtherArgs(), o.managerArgs)
	objs, err := charts.Objects(s)
	if err != nil {
		return err
	}
	for _, obj := range objs {
		text, err := yaml.Marshal(obj)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}

// validate names everything that is wrong with the command line at once: the manager itself would
// say so only in the cluster.
func (o *manifestOptions) validate() error {
	var p mistakes
	o.jobs.validate(&p)
	_, err := capi.ParseMode(o.settings.CAPI)
	p.unless(err == nil, "%w", err)
	p.unless(o.settings.Replicas >= 1, "--replicas=%d must be at least 1", o.settings.Replicas)
	p.unless(len(validation.IsDNS1123Label(o.settings.Namespace)) == 0, "--namespace=%s is not a valid namespace name", o.settings.Namespace)
	for _, cidr := range o.settings.Webhooks.APIServerCIDRs {
		prefix, err := netip.ParsePrefix(cidr)
		p.unless(err == nil, "--api-server-cidr=%s is not of the form 192.0.2.10/32", cidr)
		p.unless(prefix == prefix.Masked(), "--api-server-cidr=%s begins within its range: write %s", cidr, prefix.Masked())
	}
	if o.memoryLimit != "" {
		limit, err := resource.ParseQuantity(o.memoryLimit)
		p.unless(err == nil && limit.Cmp(leastMemory) >= 0, "--memory-limit=%s: must be a quantity of at least %s, such as 2Gi", o.memoryLimit, &leastMemory)
	}
	o.validateAgents(&p)
	manager := command(func(string) (string, bool) { return "", false })
	err = manager.ParseFlags(o.managerArgs)
	p.unless(err == nil, "--manager-arg: %w", err)
	p.unless(manager.Flags().NArg() == 0, "--manager-arg: %q is not a flag of the manager", manager.Flags().Arg(0))
	for _, name := range []string{"job-http-proxy", "job-https-proxy"} { // whose password must not get into the Deployment
		err := checkProxy(manager.Flag(name).Value.String())
		p.unless(err == nil, "--manager-arg: --%s %w", name, err)
	}
	return multierror.Append(nil, p...).ErrorOrNil()
}

// validateAgents validates the Service of agents against Kubernetes' rules, and its address for use
// by servers.
func (o *manifestOptions) validateAgents(p *mistakes) {
	agents := o.settings.Agents
	if !clusterctlVariable.MatchString(agents.ServerURL) {
		(&agentOptions{serverURL: agents.ServerURL, address: ":0"}).validate(p)
	}
	if server, err := url.Parse(agents.ServerURL); err == nil {
		p.unless(!isHere(server.Hostname()), "--server-url=https://%s is each server itself: give an address at which servers reach this cluster", server.Host)
	}
	kind, port := agents.ServiceType, agents.NodePort
	p.unless(clusterctlVariable.MatchString(kind) || slices.Contains([]string{"", "ClusterIP", "NodePort", "LoadBalancer"}, kind),
		"--agents-service-type=%s must be ClusterIP, NodePort or LoadBalancer", kind)
	p.unless(port >= 0 && port <= 65535, "--agents-node-port=%d is not a valid port", port)
	p.unless(port <= 0 || kind != "ClusterIP", "--agents-node-port needs --agents-service-type NodePort or LoadBalancer")
	p.unless(agents.ServerURL != "" || kind == "" && port == 0,
		"--agents-service-type and --agents-node-port need --server-url: without it there is no Service drover-agents")
}

// clusterctlVariable is a value that is left to `clusterctl init`, which replaces ${NAME} and
// ${NAME:=default} in the components of a release.
var clusterctlVariable = regexp.MustCompile(`^\$\{[A-Z_]+(:=[^{}]*)?\}$`)

// isHere reports whether a host is a loopback or unspecified address.
func isHere(host string) bool {
	if address, err := netip.ParseAddr(host); err == nil {
		return address.IsLoopback() || address.IsUnspecified()
	}
	return host == "localhost"
}

// furtherArgs are the flags of the manager about Jobs for which the chart has no value of its own.
func (j *jobOptions) furtherArgs() []string {
	var args []string
	add := func(name, value string) { args = append(args, "--"+name+"="+value) }
	if !slices.Equal(j.architectures, []string{runtime.GOARCH}) {
		add("job-architectures", strings.Join(j.architectures, ","))
	}
	for _, d := range j.durations() {
		if d.value != d.otherwise {
			add(d.name, d.value.String())
		}
	}
	for _, r := range []struct {
		name  string
		pairs map[string]string
	}{{"job-requests", j.requests}, {"job-limits", j.limits}} {
		for _, key := range slices.Sorted(maps.Keys(r.pairs)) {
			add(r.name, key+"="+r.pairs[key])
		}
	}
	return args
}
