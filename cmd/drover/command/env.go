package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
)

// env holds the dependencies of every command.
type env struct {
	Options

	flags *genericclioptions.ConfigFlags
}

// restConfig returns the connection to the cluster that the flags name. The rate limits are higher
// than the default, because one user runs one command.
func (e *env) restConfig() (*rest.Config, error) {
	// Usage errors that client-go would report as errors of the kubeconfig.
	wrong := func(err error) (*rest.Config, error) { return nil, &usageError{err, e.Name + " --help"} }
	if text := ptr.Deref(e.flags.Timeout, ""); text != "" {
		if d, err := clientcmd.ParseTimeout(text); err != nil || d < 0 {
			return wrong(fmt.Errorf("--request-timeout=%s is not a valid duration, such as 30s", text))
		}
	}
	if ptr.Deref(e.flags.Impersonate, "") == "" && len(ptr.Deref(e.flags.ImpersonateGroup, nil)) > 0 {
		return wrong(errors.New("--as-group needs --as"))
	}
	config, err := e.flags.ToRESTConfig()
	if err != nil && !clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	loader := e.flags.ToRawKubeConfigLoader()
	// Without a kubeconfig, client-go defaults to a server on localhost, which no longer exists in
	// practice.
	raw, rawErr := loader.RawConfig()
	if err != nil || rawErr == nil && len(raw.Clusters) == 0 && strings.HasPrefix(config.Host, "http://") {
		return nil, noKubeconfig(loader.ConfigAccess())
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100
	config.UserAgent = "drover/" + e.build().Version
	config.WarningHandler = &warnings{e: e, seen: map[string]bool{}}
	return config, nil
}

// warnings shows the API server's warnings, each once.
type warnings struct {
	e    *env
	lock sync.Mutex
	seen map[string]bool
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(code int, _, text string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	// 299 is the code of a warning without a narrower meaning (RFC 7234, 5.5.7), which Kubernetes uses.
	if text = facts.Clean(text); code != 299 || text == "" || w.seen[text] {
		return
	}
	w.seen[text] = true
	_, _ = fmt.Fprintf(w.e.Streams.ErrOut, "Warning: %s\n", text)
}

// noKubeconfig returns an error that names the missing file: client-go treats a missing file of
// KUBECONFIG as empty.
func noKubeconfig(access clientcmd.ConfigAccess) error {
	var missing []string
	for _, file := range access.GetLoadingPrecedence() {
		if _, err := os.Stat(file); err != nil {
			missing = append(missing, inventory.Plain(err))
		}
	}
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" && len(missing) > 0 {
		return fmt.Errorf("no kubeconfig: of the files that KUBECONFIG names, none can be used: %s", strings.Join(missing, "; "))
	}
	return errors.New("no kubeconfig: name one with --kubeconfig or in KUBECONFIG")
}

// called is how we are called for this cluster: commands that the user copies must not reach
// another one.
func (e *env) called() string {
	called := []string{e.Name}
	for _, flag := range []struct {
		name  string
		value *string
	}{
		{"kubeconfig", e.flags.KubeConfig}, {"context", e.flags.Context}, {"cluster", e.flags.ClusterName}, {"user", e.flags.AuthInfoName},
	} {
		if value := ptr.Deref(flag.value, ""); value != "" {
			called = append(called, "--"+flag.name, facts.Word(value))
		}
	}
	return strings.Join(called, " ")
}

// api connects to the cluster; nothing is sent yet.
func (e *env) api() (*inventory.API, error) {
	config, err := e.restConfig()
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &inventory.API{Dynamic: objects, Kube: kube}, nil
}

// connect returns the API and the namespace for the commands that need both. The namespace is the
// value of -n, else the namespace of the kubeconfig's context, else "default".
func (e *env) connect() (*inventory.API, string, error) {
	api, err := e.api()
	if err != nil {
		return nil, "", err
	}
	namespace, _, err := e.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return api, namespace, nil
}

// find is Resolve, whose advice names us as the user does.
func (e *env) find(ctx context.Context, api *inventory.API, namespace, name string) (inventory.Target, error) {
	target, err := api.Resolve(ctx, namespace, name)
	if notFound, ok := errors.AsType[*inventory.NotFoundError](err); ok {
		notFound.Command = e.Name
	}
	if _, unknown := errors.AsType[*inventory.UnknownKindError](err); unknown {
		err = &usageError{fmt.Errorf("%w%s", err, e.insteadOf(name, namespace)), e.Name + " --help"}
	}
	return target, err
}

// machine connects and finds the infra machine that NAME means.
func (e *env) machine(ctx context.Context, name string) (*inventory.API, *facts.Machine, error) {
	api, namespace, err := e.connect()
	if err != nil {
		return nil, nil, err
	}
	m, err := e.infraMachine(ctx, api, namespace, name)
	return api, m, err
}

// infraMachine finds the infra machine that NAME means.
func (e *env) infraMachine(ctx context.Context, api *inventory.API, namespace, name string) (*facts.Machine, error) {
	target, err := e.find(ctx, api, namespace, name)
	if err == nil && target.Machine == nil {
		err = e.noInfraMachine(target, name)
	}
	return target.Machine, err
}

func (e *env) noInfraMachine(target inventory.Target, name string) error {
	return fmt.Errorf("the CAPI Machine %s has no machine of Drover (see '%s why %s')", target.CAPIMachine.Name, e.Name, name)
}
