package command

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// completeMachines completes names of machines in the namespace; names already written are left out.
func (e *env) completeMachines(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, m := range briefly(e, cmd, machinesIn) {
		names = append(names, m.Name+"\t"+facts.DriverName(m.Kind.Name, nil)+" "+m.Phase())
	}
	return matching(names, args, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// completeOneMachine is completeMachines for commands that take one NAME.
func (e *env) completeOneMachine(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return e.completeMachines(cmd, args, toComplete)
}

// completeCopy completes NAME: beside local files.
func (e *env) completeCopy(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if strings.ContainsAny(toComplete, "/.:") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var names []string
	for _, m := range briefly(e, cmd, machinesIn) {
		names = append(names, m.Name+":")
	}
	return matching(names, nil, toComplete), cobra.ShellCompDirectiveNoSpace
}

// completeWhy completes machines and the words of other kinds, and after such a word and its slash what is of that kind.
func (e *env) completeWhy(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	word, rest, qualified := strings.Cut(toComplete, "/")
	complete, known := map[string]cobra.CompletionFunc{"NodeDriver": e.completeDrivers, "Cluster": e.completeClusters, "RKEControlPlane": e.completeControlPlanes,
		"owner": e.completePools(word)}[otherKinds[strings.ToLower(word)]]
	switch {
	case len(args) > 0:
		return nil, cobra.ShellCompDirectiveNoFileComp
	case qualified && known:
		names, directive := complete(cmd, nil, rest)
		for i := range names {
			names[i] = word + "/" + names[i]
		}
		return names, directive
	}
	names, directive := e.completeOneMachine(cmd, args, toComplete)
	if words := matching([]string{"cluster/", "driver/", "md/", "ms/", "rkecontrolplane/", "rcp/"}, nil, toComplete); toComplete != "" && len(words) > 0 {
		return append(names, words...), directive | cobra.ShellCompDirectiveNoSpace
	}
	return names, directive
}

// completePools completes MachineDeployments or MachineSets, which word says.
func (e *env) completePools(word string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		names := briefly(e, cmd, func(ctx context.Context, api *inventory.API, namespace string) ([]string, error) {
			return api.PoolNames(ctx, namespace, word)
		})
		return matching(names, args, toComplete), cobra.ShellCompDirectiveNoFileComp
	}
}

func (e *env) completeControlPlanes(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	names := briefly(e, cmd, func(ctx context.Context, api *inventory.API, namespace string) ([]string, error) {
		return api.ControlPlaneNames(ctx, namespace)
	})
	return matching(names, args, toComplete), cobra.ShellCompDirectiveNoFileComp
}

func (e *env) completeDrivers(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	drivers := briefly(e, cmd, func(ctx context.Context, api *inventory.API, _ string) ([]v3.NodeDriver, error) {
		return api.Drivers(ctx)
	})
	var names []string
	for _, d := range listing.NewDriverList(drivers).Items {
		names = append(names, d.Name)
	}
	return matching(names, args, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// briefly lists what is of use for a completion; nothing when that takes long or is not allowed.
func briefly[T any](e *env, cmd *cobra.Command, list func(ctx context.Context, api *inventory.API, namespace string) ([]T, error)) []T {
	ctx, cancel := inventory.Brief(cmd.Context())
	defer cancel()
	api, namespace, err := e.connect()
	if err != nil {
		return nil
	}
	found, err := list(ctx, api, namespace)
	if err != nil {
		return nil
	}
	return found
}

func machinesIn(ctx context.Context, api *inventory.API, namespace string) ([]*facts.Machine, error) {
	kinds, err := api.Kinds(ctx)
	if err != nil {
		return nil, err
	}
	machines, _, err := api.Machines(ctx, kinds, inventory.ListOptions{Namespace: namespace})
	return machines, err
}

// completeFlags completes the flags that every command has.
func completeFlags(e *env, root *cobra.Command) {
	_ = root.RegisterFlagCompletionFunc("namespace", func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		names := briefly(e, cmd, func(ctx context.Context, api *inventory.API, _ string) ([]string, error) {
			list, err := api.Kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			var names []string
			for i := range list.Items {
				names = append(names, list.Items[i].Name)
			}
			return names, nil
		})
		return matching(names, nil, toComplete), cobra.ShellCompDirectiveNoFileComp
	})
	for flag, names := range map[string]func(clientcmdapi.Config) []string{
		"context": func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Contexts)) },
		"cluster": func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Clusters)) },
		"user":    func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.AuthInfos)) },
	} {
		_ = root.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			config, err := e.flags.ToRawKubeConfigLoader().RawConfig()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return matching(names(config), nil, toComplete), cobra.ShellCompDirectiveNoFileComp
		})
	}
}

// matching are the candidates that begin with what was typed and were not written before.
func matching(candidates, used []string, toComplete string) []string {
	var fitting []string
	for _, candidate := range candidates {
		name, _, _ := strings.Cut(candidate, "\t")
		if strings.HasPrefix(name, toComplete) && !slices.Contains(used, name) {
			fitting = append(fitting, candidate)
		}
	}
	return fitting
}
