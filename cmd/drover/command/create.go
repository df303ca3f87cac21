package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/cmd/drover/manifest"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/releases"
)

// createOptions are the flags of create cluster.
type createOptions struct {
	driver, version, credential string
	pools, set                  []string
	dryRun                      bool
	format                      string
}

func newCreate(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "create",
		Short:   "Create a cluster",
		Long:    "Create a cluster.",
		Example: "  {name} create cluster shop --driver digitalocean --credential do-token --set region=nyc3",
		Args:    unknownCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCreateCluster(e))
	return cmd
}

func newCreateCluster(e *env) *cobra.Command {
	o := &createOptions{}
	cmd := &cobra.Command{
		Use:   "cluster NAME --driver DRIVER",
		Short: "Create a cluster at the cloud of a driver",
		Long: `Create a Cluster (clusters.provisioning.cattle.io), and a Config with the driver's options for each pool. Drover creates the
servers. All objects are created or none is.

A pool is NAME=ROLES:QUANTITY; roles are etcd, controlplane, worker, server (etcd and controlplane) and all, joined with +. Without
--pool the cluster has one server and one worker: --pool server=server:1 --pool worker=worker:1.

--set sets an option of the driver for all pools, or for one pool if the pool's name and a dot precede it. Repeat --set for the items
of a list. The options are the fields of the driver's Config: kubectl explain DRIVERconfigs.rke-machine-config.cattle.io. Secret
options are not taken from flags, which other users of the computer can read: put them into a Secret and name it with --credential.`,
		Example: `  {name} create cluster shop --driver digitalocean --credential do-token --set region=nyc3 --set size=s-2vcpu-4gb
  {name} create cluster shop --driver digitalocean --credential do-token --pool server=server --pool worker=worker:3
  {name} create cluster shop --driver digitalocean --credential do-token --set region=nyc3 --set worker.size=s-4vcpu-8gb
  {name} create cluster shop --driver digitalocean --kubernetes-version v1.36.3+rke2r1 --dry-run`,
		Args: func(_ *cobra.Command, args []string) error {
			if err := oneName(nil, args); err != nil {
				return err
			}
			_, err := manifest.ParsePools(o.pools)
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.driver == "":
				return usagef(cmd, "--driver is needed: see '%s drivers'", e.Name)
			case o.dryRun && o.format != "":
				return usagef(cmd, "--dry-run prints the manifest as YAML, without -o")
			}
			version, err := e.kubernetesVersion(o.version)
			if err != nil {
				return usage(cmd, err)
			}
			pools, err := manifest.ParsePools(o.pools)
			if err != nil {
				return err
			}
			if err := inventory.CheckName(args[0]); err != nil {
				return err
			}
			return e.createCluster(cmd.Context(), &manifest.Cluster{Name: args[0], Version: version, Credential: o.credential, Pools: pools, Set: o.set}, o)
		},
	}
	addResultFlag(cmd, &o.format)
	flags := cmd.Flags()
	flags.StringVar(&o.driver, "driver", "", "Driver of the servers.")
	flags.StringVar(&o.version, "kubernetes-version", "", "Release of k3s or RKE2, or k3s or rke2 for the newest known release. (default k3s)")
	flags.StringVar(&o.credential, "credential", "", "Secret with the cloud's credential: NAME, or NAMESPACE:NAME.")
	flags.StringArrayVar(&o.pools, "pool", nil, "Pool of machines, NAME=ROLES:QUANTITY; may be repeated.")
	flags.StringArrayVar(&o.set, "set", nil, "Option of the driver, OPTION=VALUE or POOL.OPTION=VALUE; may be repeated.")
	flags.BoolVar(&o.dryRun, "dry-run", false, "Create nothing; print the manifest for kubectl apply.")
	_ = cmd.RegisterFlagCompletionFunc("driver", func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		return matching(e.briefly(cmd, configDrivers), nil, toComplete), cobra.ShellCompDirectiveNoFileComp
	})
	_ = cmd.RegisterFlagCompletionFunc("kubernetes-version", func(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		return matching(knownVersions(), nil, toComplete), cobra.ShellCompDirectiveNoFileComp
	})
	_ = cmd.RegisterFlagCompletionFunc("set", func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		options := func(ctx context.Context, api *inventory.API, _ string) ([]string, error) {
			return optionNames(ctx, api, o.driver)
		}
		return matching(e.briefly(cmd, options), nil, toComplete), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
	_ = cmd.RegisterFlagCompletionFunc("credential", cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc("pool", cobra.NoFileCompletions)
	return cmd
}

// kubernetesVersion is the release that the user asks for. A release that the built-in catalogue does
// not have may be in the manager's: the user hears of it, and admission decides.
func (e *env) kubernetesVersion(asked string) (string, error) {
	catalogue, err := releases.Default()
	if err != nil {
		return "", err
	}
	switch asked {
	case "", releases.K3s:
		return catalogue.Newest(releases.K3s), nil
	case releases.RKE2:
		return catalogue.Newest(releases.RKE2), nil
	}
	_, err = catalogue.Lookup(asked)
	if errors.Is(err, releases.ErrUnknown) {
		e.note("%s: %w", asked, err)
		return asked, nil
	}
	if err != nil {
		return "", fmt.Errorf("--kubernetes-version %s: %w", asked, err)
	}
	return asked, nil
}

// knownVersions are the releases of the built-in catalogue, newest first.
func knownVersions() []string {
	catalogue, err := releases.Default()
	if err != nil {
		return nil
	}
	var all []string
	for _, distribution := range []string{releases.K3s, releases.RKE2} {
		newest := catalogue.Releases(distribution)
		slices.Reverse(newest)
		all = append(all, newest...)
	}
	return all
}

func (e *env) createCluster(ctx context.Context, cluster *manifest.Cluster, o *createOptions) error {
	api, namespace, err := e.connect()
	if err != nil {
		return err
	}
	cluster.Namespace = namespace
	schema, err := e.driverSchema(ctx, api, o.driver)
	if err != nil {
		return err
	}
	objects, err := cluster.Objects(schema)
	if err != nil {
		return err
	}
	if err := e.noteCredential(ctx, api, cluster, schema); err != nil {
		return err
	}
	if o.dryRun {
		for i, object := range objects {
			raw, err := yaml.Marshal(object.Object)
			if err != nil {
				return fmt.Errorf("encoding the manifest: %w", err)
			}
			if i > 0 {
				raw = append([]byte("---\n"), raw...)
			}
			if _, err := e.Streams.Out.Write(raw); err != nil {
				return err
			}
		}
		return nil
	}
	made, err := api.CreateAll(ctx, objects)
	if err != nil {
		return err
	}
	last := len(made) - 1
	for _, config := range made[:last] {
		if o.format == "" {
			if _, err := fmt.Fprintln(e.Streams.Out, inventory.Ref(config)+": created"); err != nil {
				return err
			}
		}
	}
	created, err := facts.DecodeCluster(made[last].Object)
	if err != nil {
		return err
	}
	if err := e.result(o.format, cluster.Name, created, "created"); err != nil {
		return err
	}
	e.note("follow its creation with: %s wait cluster/%s --for ready -n %s", e.called(), facts.Word(cluster.Name), namespace)
	return nil
}

// driverSchema reads the options of a driver. A user without access to NodeDrivers names the driver
// as its kinds do.
func (e *env) driverSchema(ctx context.Context, api *inventory.API, name string) (*manifest.Schema, error) {
	drivers, err := api.Drivers(ctx)
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	kind := ""
	if err == nil {
		driver := facts.DriverNamed(name, drivers)
		switch {
		case driver == nil:
			return nil, fmt.Errorf("no driver is called %q (see '%s drivers')", name, e.Name)
		case !driver.Spec.Active:
			return nil, fmt.Errorf("driver %s is not active: see '%s why driver/%s'", name, e.Name, facts.Word(driver.Name))
		case driver.Status.MachineKind == "":
			return nil, fmt.Errorf("driver %s is not ready: see '%s why driver/%s'", name, e.Name, facts.Word(driver.Name))
		}
		kind = facts.ConfigKind(driver.Status.MachineKind)
	} else {
		kinds, err := api.ConfigKinds(ctx)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(kinds, func(kind string) bool { return strings.EqualFold(kind, name+"Config") })
		if at < 0 {
			return nil, fmt.Errorf("no active driver is called %q", name)
		}
		kind = kinds[at]
	}
	document, err := api.ConfigSchema(ctx)
	if err != nil {
		return nil, err
	}
	schema, err := manifest.ParseSchema(document, kind, name)
	if errors.Is(err, manifest.ErrNoSchema) {
		return nil, fmt.Errorf("%w; if driver %s was activated just now, try again in a few seconds", err, name)
	}
	return schema, err
}

// noteCredential warns about a credential that is missing. Drover waits for it.
func (e *env) noteCredential(ctx context.Context, api *inventory.API, cluster *manifest.Cluster, schema *manifest.Schema) error {
	if cluster.Credential == "" {
		if schema.NeedsCredential() {
			e.note("driver %s usually needs a credential: name its Secret with --credential", schema.Driver)
		}
		return nil
	}
	ref := credential.Parse(cluster.Namespace, cluster.Credential)
	for _, name := range []string{ref.Namespace, ref.Name} {
		if err := inventory.CheckName(name); err != nil {
			return fmt.Errorf("--credential: %w", err)
		}
	}
	// A user without access to Secrets can still name one.
	if found, err := api.HasSecret(ctx, ref.Namespace, ref.Name); err == nil && !found {
		e.note("the Secret %s in namespace %s does not exist yet; the cluster's machines wait for it", ref.Name, ref.Namespace)
	}
	return nil
}

// configDrivers lists the drivers that have Configs.
func configDrivers(ctx context.Context, api *inventory.API, _ string) ([]string, error) {
	kinds, err := api.ConfigKinds(ctx)
	var names []string
	for _, kind := range kinds {
		names = append(names, strings.ToLower(strings.TrimSuffix(kind, "Config")))
	}
	return names, err
}

// optionNames lists the options of a driver.
func optionNames(ctx context.Context, api *inventory.API, driver string) ([]string, error) {
	kinds, err := api.ConfigKinds(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(kinds, func(kind string) bool { return strings.EqualFold(kind, driver+"Config") })
	if at < 0 {
		return nil, nil
	}
	document, err := api.ConfigSchema(ctx)
	if err != nil {
		return nil, err
	}
	schema, err := manifest.ParseSchema(document, kinds[at], driver)
	if err != nil {
		return nil, err
	}
	names := schema.Names()
	for i := range names {
		names[i] += "="
	}
	return names, nil
}
