package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/pflag"

	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
)

// options are what the flags say.
type options struct {
	capi              string
	namespace         string
	managerNamespace  string
	watchFilter       string
	allowRancher      bool
	leaderElect       bool
	metricsAddress    string
	healthAddress     string
	webhookHost       string
	webhookPort       int
	webhookURL        string
	concurrency       int
	machineWorkers    int
	kubeQPS           float32
	kubeBurst         int
	jobs              jobOptions
	gracefulShutdown  time.Duration
	servingCertSecret string
}

func newOptions(env lookupEnv) *options {
	namespace, ok := env("POD_NAMESPACE")
	if !ok || namespace == "" {
		namespace = charts.DefaultNamespace
	}
	return &options{managerNamespace: namespace, jobs: newJobOptions(env), gracefulShutdown: 5 * time.Second,
		servingCertSecret: "drover-serving-cert"}
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.capi, "capi", string(capi.Auto), "who runs Cluster API's core: embedded (this manager), external (somebody else), auto (embedded unless somebody else installed it)")
	flags.StringVar(&o.namespace, "namespace", "", "only look at objects in this namespace (default: all)")
	flags.StringVar(&o.managerNamespace, "manager-namespace", o.managerNamespace, "namespace of the manager itself, for its certificate and leader election (default: $POD_NAMESPACE)")
	flags.StringVar(&o.watchFilter, "watch-filter", "", "only look at objects whose label cluster.x-k8s.io/watch-filter has this value (default: all)")
	flags.BoolVar(&o.allowRancher, "allow-rancher", false, "start although Rancher seems to run in this cluster")
	flags.BoolVar(&o.leaderElect, "leader-elect", false, "of several managers let only one act; needed with more than one replica")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "address of the metrics, or 0 for none")
	flags.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz, or 0 for none")
	flags.StringVar(&o.webhookHost, "webhook-host", "", "address the webhooks listen on (default: all)")
	flags.IntVar(&o.webhookPort, "webhook-port", charts.WebhookPort, "port the webhooks listen on")
	flags.StringVar(&o.webhookURL, "webhook-url", "", "how the API server reaches the webhooks, such as https://127.0.0.1:9443, when the manager runs outside the cluster (default: through its Service)")
	flags.IntVar(&o.concurrency, "concurrency", 10, "objects of one kind that are worked on at the same time")
	flags.IntVar(&o.machineWorkers, "machine-workers", 16, "machines that are worked on at the same time")
	flags.Float32Var(&o.kubeQPS, "kube-api-qps", 100, "requests to the API server per second")
	flags.IntVar(&o.kubeBurst, "kube-api-burst", 200, "requests to the API server that may come at once")
	o.jobs.addFlags(flags)
}

// validate says everything that is wrong at once.
// validate names everything that is wrong with the command line at once.
func (o *options) validate() error {
	var problems *multierror.Error
	if _, err := capi.ParseMode(o.capi); err != nil {
		problems = multierror.Append(problems, err)
	}
	for name, address := range map[string]string{"metrics-bind-address": o.metricsAddress, "health-probe-bind-address": o.healthAddress} {
		if _, _, err := net.SplitHostPort(address); address != "0" && err != nil {
			problems = multierror.Append(problems, fmt.Errorf("--%s=%s is not host:port", name, address))
		}
	}
	if o.webhookPort < 1 || o.webhookPort > 65535 {
		problems = multierror.Append(problems, fmt.Errorf("--webhook-port=%d is no port", o.webhookPort))
	}
	if target, err := url.Parse(o.webhookURL); o.webhookURL != "" && (err != nil || target.Scheme != "https" || target.Host == "") {
		problems = multierror.Append(problems, fmt.Errorf("--webhook-url=%s is not of the form https://host:port", o.webhookURL))
	}
	if o.concurrency < 1 || o.machineWorkers < 1 {
		problems = multierror.Append(problems, errors.New("--concurrency and --machine-workers must be at least 1"))
	}
	if o.managerNamespace == "" {
		problems = multierror.Append(problems, errors.New("--manager-namespace must not be empty"))
	}
	return multierror.Append(problems, o.jobs.validate()...).ErrorOrNil()
}
