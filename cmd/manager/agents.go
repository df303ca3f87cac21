package main

import (
	"context"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-project/drover/bootstrap"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/controllers/rkebootstrap"
	"github.com/drover-project/drover/endpoint"
	"github.com/drover-project/drover/endpoint/agents"
	"github.com/drover-project/drover/endpoint/authority"
)

// The rights that serve agents: an agent's ServiceAccount gets a token.
// +kubebuilder:rbac:groups="",resources=serviceaccounts/token,verbs=create
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;delete

// agentOptions say how servers reach the manager.
type agentOptions struct {
	serverURL   string
	address     string
	certificate string
	directory   string
}

func (o *agentOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.serverURL, "server-url", "", "URL of --agents-bind-address for servers, such as https://drover.example.org or https://192.0.2.10:9345: the agents of machines "+
		"with an RKEBootstrap call there (default: unset, and such machines get no bootstrap data)")
	flags.StringVar(&o.address, "agents-bind-address", fmt.Sprintf(":%d", charts.AgentsPort), "listen address of the agents' endpoint, or 0 for none; unused without --server-url")
	flags.StringVar(&o.certificate, "agents-cert-secret", "", "TLS Secret in the manager's namespace with the certificate of --server-url, and with ca.crt if servers' own authorities "+
		"do not verify it (default: an authority of the manager's own signs one)")
	flags.StringVar(&o.directory, "agents-dir", charts.AgentsDir, "directory of the agents that servers fetch: drover-agent-linux-amd64 and drover-agent-linux-arm64")
}

// validate names everything that is wrong with these flags.
func (o *agentOptions) validate(p *mistakes) {
	p.unless(o.address == "0" || isBindAddress(o.address), "--agents-bind-address=%s is not host:port", o.address)
	if o.serverURL != "" {
		is := bootstrap.IsServer(o.serverURL)
		p.unless(is, "--server-url is not of the form https://host or https://host:port") // it may hold a password
		p.unless(!is || o.address != "0", "--server-url needs --agents-bind-address, which is 0")
	}
	p.unless(o.certificate == "" || len(validation.IsDNS1123Subdomain(o.certificate)) == 0, "--agents-cert-secret: %q is not a valid Secret name", o.certificate)
}

// addBootstrap answers agents, on every replica, and makes the data that installs them.
func (p *plan) addBootstrap(ctx context.Context, mgr ctrl.Manager) error {
	install, changes := func() bootstrap.Install { return bootstrap.Install{} }, make(chan event.GenericEvent, 1)
	if o := p.options.agents; o.serverURL != "" && o.address != "0" {
		var err error
		changed := func() {
			select {
			case changes <- event.GenericEvent{}:
			default: // the previous event is still pending
			}
		}
		if install, err = p.addAgents(ctx, mgr, changed); err != nil {
			return err
		}
	}
	return rkebootstrap.New(rkebootstrap.Options{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Endpoint: install, EndpointChanges: changes,
		WatchFilter: p.options.watchFilter, Workers: p.options.concurrency}).Register(mgr)
}

// addAgents serves the endpoint of agents. It returns a function that gives the install settings of
// a new server, and calls changed when they change.
func (p *plan) addAgents(ctx context.Context, mgr ctrl.Manager, changed func()) (func() bootstrap.Install, error) {
	o := p.options.agents
	assets, err := agents.LoadAssets(o.directory)
	if err != nil {
		return nil, fmt.Errorf("%w (--agents-dir)", err)
	}
	sums := map[string]string{}
	for name, sum := range assets.Sums {
		if architecture, is := strings.CutPrefix(name, agents.LinuxPrefix); is {
			sums[architecture] = sum
		}
	}
	server, err := url.Parse(o.serverURL)
	if err != nil {
		return nil, fmt.Errorf("reading --server-url: %w", err)
	}
	self, recorder := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.options.managerNamespace, Name: charts.AgentsService}}, mgr.GetEventRecorder("endpoint")
	certs, err := authority.Load(ctx, authority.Options{Client: p.direct, Namespace: p.options.managerNamespace, Given: o.certificate,
		Names: []string{server.Hostname()}, Changed: changed,
		Tell: func(kind, reason, what string) {
			action := fmt.Sprintf("Show%x", crc32.ChecksumIEEE([]byte(what))) // the recorder takes two for one that differ in their words alone
			recorder.Eventf(self, nil, kind, reason, action, "%s", what)
		}})
	if err != nil {
		return nil, err
	}
	install := func() bootstrap.Install {
		return bootstrap.Install{Server: o.serverURL, CAChecksum: certs.Checksum(), Sums: sums}
	}
	byHand := func() ([]byte, error) {
		script := install()
		script.ByHand = true
		return bootstrap.Script(script)
	}
	handler, err := agents.New(agents.Options{Client: p.direct, API: p.config, Server: o.serverURL, Authorities: certs.Bundle, Assets: assets,
		InstallScript: byHand, Recorder: recorder, Self: self,
		TicketSecret: func() []byte { return certs.Derive("tickets of agents") }})
	if err != nil {
		return nil, err
	}
	if err := agents.RegisterMetrics(); err != nil {
		return nil, err
	}
	port, err := endpoint.Encrypted(ctx, "agents", o.address, handler, certs.GetCertificate, endpoint.AgentLimits)
	if err != nil {
		return nil, err
	}
	port.ShutdownTimeout = &p.options.gracefulShutdown
	endWatches(port.Server)
	for _, runnable := range []manager.Runnable{certs, port} {
		if err := mgr.Add(runnable); err != nil {
			return nil, err
		}
	}
	return install, nil
}

// endWatches ends a server's watches when the server shuts down. Otherwise the server would wait
// for them, and a manager keeps the leader's lease until its servers have ended.
func endWatches(server *http.Server) {
	ending, end := context.WithCancel(context.Background())
	server.RegisterOnShutdown(end)
	next := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(ending, cancel)()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}
