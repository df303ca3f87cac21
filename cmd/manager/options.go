package main

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
)

// options are the values of the flags.
type options struct {
	capi              string
	namespace         string
	managerNamespace  string
	watchFilter       string
	allowRancher      bool
	leaderElect       bool
	metricsAddress    string
	healthAddress     string
	profilingAddress  string
	webhookHost       string
	webhookPort       int
	webhookURL        string
	webhookClientCA   string
	concurrency       int
	machineWorkers    int
	maxConcurrentJobs int
	kubeQPS           float32
	kubeBurst         int
	scanInterval      time.Duration
	jobs              jobOptions
	agents            agentOptions
	gracefulShutdown  time.Duration
	servingCertSecret string

	trustedCredentialNamespaces []string
}

// Bounds of --scan-interval: each time costs a Job per credential.
const (
	minScanInterval = 10 * time.Second
	maxScanInterval = 365 * 24 * time.Hour
)

func newOptions(env lookupEnv) *options {
	namespace, ok := env("POD_NAMESPACE")
	if !ok || namespace == "" {
		namespace = charts.DefaultNamespace
	}
	return &options{managerNamespace: namespace, jobs: newJobOptions(env), gracefulShutdown: 5 * time.Second, scanInterval: time.Hour,
		servingCertSecret: "drover-serving-cert"}
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.capi, "capi", string(capi.Auto), "provider of Cluster API's core: embedded (this manager), external (an existing installation), auto (embedded unless an installation exists)")
	flags.StringVar(&o.namespace, "namespace", "", "reconcile only objects in this namespace (default: all)")
	flags.StringVar(&o.managerNamespace, "manager-namespace", o.managerNamespace, "namespace of the manager, which holds its certificate and its leader election (default: $POD_NAMESPACE)")
	flags.StringVar(&o.watchFilter, "watch-filter", "", "reconcile only Cluster API's objects, machines and RKEClusters whose label cluster.x-k8s.io/watch-filter has this value; every manager reconciles NodeDrivers and ServerScans (default: all)")
	flags.BoolVar(&o.allowRancher, "allow-rancher", false, "start even if Rancher seems to run in this cluster")
	flags.BoolVar(&o.leaderElect, "leader-elect", false, "use leader election, so that only one manager acts; required with more than one replica")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "address of the metrics, or 0 for none")
	flags.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz, or 0 for none")
	flags.StringVar(&o.profilingAddress, "profiling-bind-address", "0", "address of Go's CPU and memory profiles (/debug/pprof), such as 127.0.0.1:6060, or 0 for none")
	flags.StringVar(&o.webhookHost, "webhook-host", "", "listen address of the webhooks (default: all)")
	flags.IntVar(&o.webhookPort, "webhook-port", charts.WebhookPort, "listen port of the webhooks")
	flags.StringVar(&o.webhookURL, "webhook-url", "", "URL of the webhooks for the API server, such as https://127.0.0.1:9443, if the manager runs outside the cluster (default: its Service)")
	flags.StringVar(&o.webhookClientCA, "webhook-client-ca-file", "", "PEM file of the CA certificates that verify callers of the webhooks; the API server must present a certificate that they signed (default: callers are not verified)")
	flags.IntVar(&o.concurrency, "concurrency", 10, "number of objects of one kind that are reconciled concurrently")
	flags.IntVar(&o.machineWorkers, "machine-workers", 16, "number of machines that are reconciled concurrently")
	flags.IntVar(&o.maxConcurrentJobs, "max-concurrent-jobs", 0, "maximum number of machines with a running Job, shared evenly among namespaces (default: unlimited)")
	flags.Float32Var(&o.kubeQPS, "kube-api-qps", 100, "requests to the API server per second")
	flags.IntVar(&o.kubeBurst, "kube-api-burst", 200, "burst of requests to the API server")
	flags.DurationVar(&o.scanInterval, "scan-interval", o.scanInterval, "how often to scan, with each credential that machines use, for servers without a machine and machines whose server is gone, or 0 for never; a scan only reports them")
	flags.StringSliceVar(&o.trustedCredentialNamespaces, "trusted-credential-namespaces", nil,
		"namespaces whose Secrets named cc-… machines and control planes of every namespace may use as a credential, such as "+
			"cattle-global-data, where Rancher's user interface makes them (default: none; a credential names the namespaces that may use it)")
	o.agents.addFlags(flags)
	o.jobs.addFlags(flags)
}

// mistakes are all that is wrong with a command line.
type mistakes []error

// unless notes one unless so.
func (p *mistakes) unless(so bool, format string, args ...any) {
	if !so {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

// validate names everything that is wrong with the command line at once.
func (o *options) validate() error {
	var p mistakes
	_, err := capi.ParseMode(o.capi)
	p.unless(err == nil, "%w", err)
	for _, bind := range []struct{ name, address string }{{"metrics-bind-address", o.metricsAddress}, {"health-probe-bind-address", o.healthAddress},
		{"profiling-bind-address", o.profilingAddress}} {
		p.unless(bind.address == "0" || isBindAddress(bind.address), "--%s=%s is not host:port", bind.name, bind.address)
	}
	p.unless(o.webhookPort >= 1 && o.webhookPort <= 65535, "--webhook-port=%d is not a valid port", o.webhookPort)
	p.unless(o.webhookURL == "" || isWebhookURL(o.webhookURL), "--webhook-url is not of the form https://host:port")
	p.unless(o.concurrency >= 1 && o.machineWorkers >= 1, "--concurrency and --machine-workers must be at least 1")
	p.unless(o.maxConcurrentJobs >= 0, "--max-concurrent-jobs=%d is negative", o.maxConcurrentJobs)
	p.unless(o.scanInterval == 0 || o.scanInterval >= minScanInterval && o.scanInterval <= maxScanInterval,
		"--scan-interval=%s is neither 0 nor between %s and %s", o.scanInterval, minScanInterval, maxScanInterval)
	p.unless(o.managerNamespace != "", "--manager-namespace must not be empty")
	named := []struct{ name, value string }{{"namespace", o.namespace}, {"manager-namespace", o.managerNamespace}}
	for _, trusted := range o.trustedCredentialNamespaces {
		named = append(named, struct{ name, value string }{"trusted-credential-namespaces", trusted})
	}
	for _, namespace := range named {
		p.unless(namespace.value == "" || len(validation.IsDNS1123Label(namespace.value)) == 0, "--%s=%s is not a valid namespace name", namespace.name, namespace.value)
	}
	p.unless(len(validation.IsValidLabelValue(o.watchFilter)) == 0, "--watch-filter=%s is not a valid label value", o.watchFilter)
	o.agents.validate(&p)
	o.jobs.validate(&p)
	return multierror.Append(nil, p...).ErrorOrNil()
}

func isBindAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// isWebhookURL reports whether an API server accepts the URL: it has no user, query or fragment.
// Errors do not include the URL, because it may hold a password.
func isWebhookURL(text string) bool {
	target, err := url.Parse(text)
	return err == nil && target.Scheme == "https" && target.Hostname() != "" && target.User == nil && target.RawQuery == "" && target.Fragment == ""
}
