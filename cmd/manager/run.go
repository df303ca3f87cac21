package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/admission"
	v3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/controllers/rkecontrolplane"
	"github.com/drover-project/drover/install"
	"github.com/drover-project/drover/jobrunner"
)

// The lease of the leader is in a Role of the manager's own namespace, see package charts.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=update
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=selfsubjectreviews,verbs=create

// plan holds the values that are known before the manager exists.
type plan struct {
	config   *rest.Config
	scheme   *runtime.Scheme
	direct   client.WithWatch
	mode     capi.Mode
	settings jobrunner.Settings
	options  *options
	// management is this management cluster for the tags of servers.
	management string
}

// run installs the manager's prerequisites and runs it until the context ends.
func run(ctx context.Context, config *rest.Config, o *options) error {
	p, err := prepare(ctx, config, o)
	if err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Starting", "version", version, "capi", p.mode)
	if err := install.Kinds(ctx, p.direct, p.mode == capi.Embedded); err != nil {
		return err
	}
	hooks, err := p.webhooks(ctx)
	if err != nil {
		return err
	}
	if err := install.Objects(ctx, p.direct, hooks.target.Owner); err != nil {
		return err
	}
	mgr, err := p.newManager(hooks)
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	if err := p.addControllers(ctx, mgr); err != nil {
		return err
	}
	admission.Register(mgr, o.trustedCredentialNamespaces, rkecontrolplane.Catalogue(mgr.GetCache(), mgr.GetAPIReader(), o.releases()))
	// The certificate's upkeep, and the configuration.
	server := mgr.GetWebhookServer().StartedChecker()
	err = errors.Join(mgr.Add(hooks.certs), mgr.Add(everyReplica{func(ctx context.Context) error { return hooks.start(ctx, server) }}),
		p.addPorts(ctx, mgr, hooks))
	if err != nil {
		return err
	}
	return endWell(ctx, mgr.Start(ctx))
}

// endWell ignores work that did not end in time after the manager was stopped. Nothing is lost, and
// the lease is still released.
func endWell(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		ctrl.LoggerFrom(ctx).Info("Stopping without waiting any longer", "reason", err.Error())
		return nil
	}
	return err
}

// prepare looks at the cluster before anything is changed in it.
func prepare(ctx context.Context, config *rest.Config, o *options) (*plan, error) {
	settings, err := o.jobs.settings()
	if err != nil {
		return nil, err
	}
	settings.PullNamespace = o.managerNamespace
	scheme, err := newScheme()
	if err != nil {
		return nil, fmt.Errorf("registering kinds: %w", err)
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = o.kubeQPS, o.kubeBurst
	config.UserAgent = "drover-manager/" + version
	direct, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if err := install.CheckRancher(ctx, direct); err != nil && (!errors.Is(err, install.ErrRancher) || !o.allowRancher) {
		return nil, err
	}
	mode, err := capi.Resolve(ctx, direct, capi.Mode(o.capi))
	if err != nil {
		return nil, err
	}
	system := &corev1.Namespace{}
	if err := direct.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return nil, fmt.Errorf("reading the namespace %s, whose UID the tags of servers have: %w", metav1.NamespaceSystem, err)
	}
	return &plan{config: config, scheme: scheme, direct: direct, mode: mode, settings: settings, options: o, management: string(system.UID)}, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme),
		capi.AddToScheme(scheme), v3.AddToScheme(scheme), provv1.AddToScheme(scheme), rkev1.AddToScheme(scheme))
}
