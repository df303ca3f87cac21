package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"sync/atomic"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/capi/workload"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/controllers/machine"
	"github.com/drover-project/drover/controllers/managementcluster"
	"github.com/drover-project/drover/controllers/nodedriver"
	"github.com/drover-project/drover/controllers/provisioningcluster"
	"github.com/drover-project/drover/controllers/rkecluster"
	"github.com/drover-project/drover/controllers/rkecontrolplane"
	"github.com/drover-project/drover/controllers/serverscan"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/endpoint"
	"github.com/drover-project/drover/install"
)

func (p *plan) newManager(hooks *webhooks) (ctrl.Manager, error) {
	o := p.options
	cacheOptions, err := o.cacheOptions()
	if err != nil {
		return nil, err
	}
	return ctrl.NewManager(p.config, ctrl.Options{
		Scheme:                        p.scheme,
		NewCache:                      capi.NewCache,
		Cache:                         cacheOptions,
		Client:                        capi.ClientOptions(),
		Controller:                    capi.ControllerOptions(),
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "drover-manager",
		LeaderElectionNamespace:       o.managerNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaderElectionLabels:          versionLabels(),
		// Our own ports are bounded, see addPorts.
		HealthProbeBindAddress:  "0",
		Metrics:                 server.Options{BindAddress: "0"},
		GracefulShutdownTimeout: &o.gracefulShutdown,
		WebhookServer: endpoint.NewWebhooks(endpoint.WebhookOptions{Host: o.webhookHost, Port: o.webhookPort,
			GetCertificate: hooks.certs.GetCertificate, Strip: hooks.certs.Strip, ClientCA: hooks.clientCA}),
	})
}

// versionLabels are the labels of the Lease. `drover version` reads the manager's version from
// them. A version that is not a valid label value is left out.
func versionLabels() map[string]string {
	if len(validation.IsValidLabelValue(version)) > 0 {
		return nil
	}
	return map[string]string{"app.kubernetes.io/version": version}
}

// cacheOptions limit the cache to the objects that controllers watch: of Jobs, pods, and objects
// that give access, only ours. For Secrets see capi.NewCache.
func (o *options) cacheOptions() (cache.Options, error) {
	ours, err := labels.NewRequirement(rkev1.OperationLabel, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, fmt.Errorf("building the selector of Jobs: %w", err)
	}
	agents, err := labels.NewRequirement(rkev1.MachineIDLabel, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, fmt.Errorf("building the selector of agents' access: %w", err)
	}
	access := cache.ByObject{Label: labels.NewSelector().Add(*agents), Transform: cache.TransformStripManagedFields()}
	jobs := cache.ByObject{Label: labels.NewSelector().Add(*ours), Transform: dropPodSpec}
	var namespaces map[string]cache.Config
	if o.namespace != "" {
		namespaces = map[string]cache.Config{o.namespace: {}}
		jobs.Namespaces = map[string]cache.Config{o.namespace: {}, driver.CacheNamespace: {}}
	}
	return cache.Options{DefaultNamespaces: namespaces, ByObject: map[client.Object]cache.ByObject{
		&batchv1.Job{}: jobs, &corev1.Pod{}: jobs,
		&corev1.ServiceAccount{}: access, &rbacv1.Role{}: access, &rbacv1.RoleBinding{}: access,
	}}, nil
}

// dropPodSpec drops the fields of Jobs and pods that no controller reads, which are most of them.
func dropPodSpec(in any) (any, error) {
	switch obj := in.(type) {
	case *batchv1.Job:
		obj.Spec.Template = corev1.PodTemplateSpec{}
		obj.SetManagedFields(nil)
	case *corev1.Pod:
		obj.Spec = corev1.PodSpec{}
		obj.SetManagedFields(nil)
	}
	return in, nil
}

func (p *plan) addControllers(ctx context.Context, mgr ctrl.Manager) error {
	o := p.options
	clusters, err := capi.Setup(ctx, mgr, capi.Options{Concurrency: o.concurrency, WatchFilter: o.watchFilter, Embedded: p.mode == capi.Embedded})
	if err != nil {
		return err
	}
	watch, err := nodedriver.NewUserWatch(mgr.GetConfig())
	if err != nil {
		return err
	}
	if err := mgr.Add(watch); err != nil {
		return err
	}
	drivers := nodedriver.New(nodedriver.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("nodedriver"),
		Jobs: p.settings, Watch: watch,
	})
	if err := drivers.Register(mgr); err != nil {
		return err
	}
	if err := rkecluster.New(rkecluster.Options{Client: mgr.GetClient(), WatchFilter: o.watchFilter, Workers: o.concurrency}).Register(mgr); err != nil {
		return err
	}
	// News of infra machines come from their controller, which alone watches kinds that come and go.
	var wake atomic.Pointer[func(namespace, cluster string)]
	machines := machine.New(machine.Options{
		Edited: func(namespace, cluster string) {
			if wake := wake.Load(); wake != nil {
				(*wake)(namespace, cluster)
			}
		},
		Client: mgr.GetClient(), Cache: mgr.GetCache(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("machine"),
		Settings: p.settings, Nodes: clusters, WatchFilter: o.watchFilter, Workers: o.machineWorkers,
		MaxConcurrentJobs:           o.maxConcurrentJobs,
		TrustedCredentialNamespaces: o.trustedCredentialNamespaces, Management: p.management,
	})
	if err := machines.Register(mgr); err != nil {
		return err
	}
	if err := p.addControlPlanes(mgr, clusters, func(listen func(namespace, cluster string)) { wake.Store(&listen) }); err != nil {
		return err
	}
	if err := p.addBootstrap(ctx, mgr); err != nil {
		return err
	}
	err = provisioningcluster.New(provisioningcluster.Options{Pace: step.NewPace(), Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("provisioningcluster"),
		WatchFilter: o.watchFilter, Workers: o.concurrency}).Register(ctx, mgr)
	if err != nil {
		return err
	}
	err = managementcluster.New(managementcluster.Options{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Totals: clusters, Recorder: mgr.GetEventRecorder("managementcluster"),
		Namespace: o.namespace, WatchFilter: o.watchFilter, Workers: o.concurrency}).Register(ctx, mgr)
	if err != nil {
		return err
	}
	scans := serverscan.New(serverscan.Options{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Jobs: p.settings, Management: p.management,
		TrustedCredentialNamespaces: o.trustedCredentialNamespaces})
	if err := scans.Register(mgr); err != nil {
		return err
	}
	if o.scanInterval > 0 {
		if err := mgr.Add(&serverscan.Schedule{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: o.namespace, Interval: o.scanInterval}); err != nil {
			return err
		}
	}
	return mgr.Add(&install.Predefined{Client: mgr.GetClient(), Reader: mgr.GetAPIReader()})
}

// releases names the ConfigMap with the catalogue of releases.
func (o *options) releases() types.NamespacedName {
	return types.NamespacedName{Namespace: o.managerNamespace, Name: charts.ReleasesConfigMap}
}

// addControlPlanes delivers plans. It has a cache of its own for plan Secrets, for the manager's
// keeps no content of Secrets.
func (p *plan) addControlPlanes(mgr ctrl.Manager, clusters *workload.Clusters, onInfraMachine func(func(namespace, cluster string))) error {
	o := p.options
	opts := cache.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()}
	if o.namespace != "" {
		opts.DefaultNamespaces = map[string]cache.Config{o.namespace: {}}
	}
	plans, err := rkecontrolplane.NewPlans(mgr.GetConfig(), opts)
	if err != nil {
		return err
	}
	return rkecontrolplane.New(rkecontrolplane.Options{Pace: step.NewPace(), Client: mgr.GetClient(), Cache: mgr.GetCache(), Reader: mgr.GetAPIReader(), Plans: plans, Clusters: clusters,
		Releases: o.releases(), WatchFilter: o.watchFilter, Workers: o.concurrency,
		TrustedCredentialNamespaces: o.trustedCredentialNamespaces,
		OnInfraMachine:              onInfraMachine, Answers: workload.Answers, Recorder: mgr.GetEventRecorder("rkecontrolplane"),
	}).Register(mgr, plans)
}

// addPorts serves metrics, health and, when asked for, profiles. They answer before caches are
// filled, and on every replica.
func (p *plan) addPorts(ctx context.Context, mgr ctrl.Manager, hooks *webhooks) error {
	o := p.options
	if err := endpoint.RegisterMetrics(); err != nil {
		return err
	}
	started := mgr.GetWebhookServer().StartedChecker()
	ready := func(request *http.Request) error {
		if !hooks.configured.Load() {
			return errors.New("the webhooks are not configured yet")
		}
		return started(request) // the API server calls us, and we answer
	}
	health := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{"/healthz": {"ping": healthz.Ping}, "/readyz": {"webhooks": ready}} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		health.Handle(path, handler)
		health.Handle(path+"/", handler)
	}
	profiles := http.NewServeMux()
	for path, handler := range map[string]http.HandlerFunc{"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace} {
		profiles.Handle("/debug/pprof/"+path, handler)
	}
	for _, port := range []struct {
		name, address string
		handler       http.Handler
		limits        endpoint.Limits
	}{
		{"metrics", o.metricsAddress, endpoint.Metrics(), endpoint.PlainLimits},
		{"health", o.healthAddress, health, endpoint.PlainLimits},
		{"profiles", o.profilingAddress, profiles, endpoint.ProfileLimits},
	} {
		server, err := endpoint.Plain(ctx, port.name, port.address, port.handler, port.limits)
		if err != nil {
			return err
		}
		if server == nil {
			continue
		}
		server.ShutdownTimeout = &o.gracefulShutdown
		if err := mgr.Add(server); err != nil {
			return err
		}
	}
	return nil
}
