package command

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
)

// lister lists candidates, each followed by a tab and a description if it has one.
type lister func(ctx context.Context, api *inventory.API, namespace string) ([]string, error)

// briefly lists candidates for a completion. It lists none if the request takes long or is
// forbidden.
func (e *env) briefly(cmd *cobra.Command, list lister) []string {
	ctx, cancel := context.WithTimeout(cmd.Context(), inventory.Brief)
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

// complete completes names; those already written are left out.
func (e *env) complete(list lister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		return matching(e.briefly(cmd, list), args, toComplete), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeOneMachine completes the name of a machine for commands that take one NAME.
func (e *env) completeOneMachine(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return e.complete(machinesIn)(cmd, args, toComplete)
}

// machinesIn are the machines of a namespace.
func machinesIn(ctx context.Context, api *inventory.API, namespace string) ([]string, error) {
	kinds, err := api.Kinds(ctx)
	if err != nil {
		return nil, err
	}
	machines, _, err := api.Machines(ctx, kinds, inventory.ListOptions{Namespace: namespace})
	var names []string
	for _, m := range machines {
		names = append(names, m.Name+"\t"+facts.DriverName(m.Kind.Name, nil)+" "+m.Phase())
	}
	return names, err
}

// others lists objects of a kind other than machines; word is the user's name of the kind.
func others(kind, word string) lister {
	return func(ctx context.Context, api *inventory.API, namespace string) ([]string, error) {
		return api.Names(ctx, namespace, kind, word)
	}
}

// completeCopy completes NAME: beside local files.
func (e *env) completeCopy(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if strings.ContainsAny(toComplete, "/.:") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var names []string
	for _, name := range matching(e.briefly(cmd, machinesIn), nil, toComplete) {
		name, _, _ = strings.Cut(name, "\t")
		names = append(names, name+":")
	}
	return names, cobra.ShellCompDirectiveNoSpace
}

// completeKinds completes the names in list and words for other kinds. After such a word and a
// slash it completes objects of that kind.
func (e *env) completeKinds(list lister, words ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		word, rest, qualified := strings.Cut(toComplete, "/")
		if kind := otherKinds[strings.ToLower(word)]; qualified && kind != "" {
			var names []string
			for _, name := range matching(e.briefly(cmd, others(kind, word)), nil, rest) {
				names = append(names, word+"/"+name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		}
		names := matching(e.briefly(cmd, list), nil, toComplete)
		if fitting := matching(words, nil, toComplete); toComplete != "" && len(fitting) > 0 {
			return append(names, fitting...), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlags completes the flags that every command has.
func completeFlags(e *env, root *cobra.Command) {
	_ = root.RegisterFlagCompletionFunc("namespace", func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		return e.complete(others("Namespace", ""))(cmd, nil, toComplete)
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

// matching returns the candidates that begin with the typed text and are not arguments already.
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
