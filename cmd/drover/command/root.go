package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// Options of the commands.
type Options struct {
	// Name is how the user calls it: drover, or kubectl drover.
	Name string
	// Streams are where everything is read from and written to.
	Streams genericiooptions.IOStreams
	// Version of the build; if empty, the version that the Go toolchain wrote into the binary.
	Version string
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Patience is how long a command waits for a manager to renew a Lease that looks old; five
	// seconds when 0.
	Patience time.Duration
	// Interval is how often a command that waits reads the objects that it cannot watch; five
	// seconds when 0.
	Interval time.Duration
}

// Names of the binary as a kubectl plugin, and as kubectl's program for the plugin's completions.
const (
	standaloneName = "drover"
	pluginBinary   = "kubectl-drover"
	pluginName     = "kubectl drover"
	completeBinary = "kubectl_complete-drover"
)

// suggestionDistance is how many letters a word may differ from the command that is meant.
const suggestionDistance = 2

// Invocation derives the user's name of the command from the binary's name, and completes the
// arguments for kubectl's completion.
func Invocation(binary string, args []string) (name string, arguments []string) {
	switch binary {
	case pluginBinary:
		return pluginName, args
	case completeBinary:
		return pluginName, append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	return standaloneName, args
}

// Execute runs the command line and returns the exit code.
func Execute(ctx context.Context, o Options, args []string) int {
	root, e := newRoot(o)
	root.SetArgs(args)
	return e.report(ctx, root.ExecuteContext(ctx))
}

// New builds the root command.
func New(o Options) *cobra.Command {
	root, _ := newRoot(o)
	return root
}

func newRoot(o Options) (*cobra.Command, *env) {
	if o.Patience == 0 {
		o.Patience = 5 * time.Second
	}
	if o.Interval == 0 {
		o.Interval = 5 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	// The flags of kubectl that say which cluster to talk to, without those a kubeconfig makes
	// needless.
	flags := genericclioptions.NewConfigFlags(true)
	flags.CacheDir, flags.CertFile, flags.KeyFile, flags.CAFile, flags.Insecure = nil, nil, nil, nil, nil
	flags.TLSServerName, flags.BearerToken, flags.DisableCompression, flags.ImpersonateUID = nil, nil, nil, nil
	flags.APIServer, flags.ImpersonateUserExtra = nil, nil
	if o.Streams.ErrOut != nil {
		flags.WithWarningPrinter(o.Streams)
	}
	e := &env{Options: o, flags: flags}
	root := &cobra.Command{
		Use:         standaloneName,
		Short:       "See, reach and mend the machines that Drover makes",
		Long:        rootLong,
		Example:     rootExample,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: o.Name},

		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(o.Streams.In)
	root.SetOut(o.Streams.Out)
	root.SetErr(o.Streams.ErrOut)
	// The flags of kubectl have descriptions that are long.
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 120"))
	root.SetFlagErrorFunc(usage)
	flags.AddFlags(root.PersistentFlags())
	root.AddCommand(
		newGet(e), newClusters(e, "clusters"), newDrivers(e, "drivers"), newDescribe(e), newWhy(e), newPlan(e), newCreate(e), newScale(e), newWait(e), newDelete(e),
		newLogs(e), newSSH(e), newSCP(e), newKeys(e), newKubeconfig(e), newRetry(e), newAbandon(e), newGC(e), newVersion(e),
	)
	completeFlags(e, root)
	root.InitDefaultCompletionCmd() // cobra adds its completion command later than this code needs it
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Args, completion.RunE = unknownCommand, root.RunE
	}
	// Examples show the name that drover was called by. Invalid arguments are usage errors.
	for all := []*cobra.Command{root}; len(all) > 0; all = all[1:] {
		command := all[0]
		all = append(all, command.Commands()...)
		command.Example = strings.ReplaceAll(command.Example, "{name}", o.Name)
		if check := command.Args; check != nil {
			command.Args = func(cmd *cobra.Command, args []string) error {
				if err := check(cmd, args); err != nil {
					return usage(cmd, err)
				}
				return nil
			}
		}
	}
	return root, e
}

const rootLong = `See, reach and mend the machines that Drover makes. A kubeconfig is all it needs.

NAME is a machine of any driver or the CAPI Machine that owns it. Where a name means several machines, write the kind before
it: digitaloceanmachine/NAME. Exit codes: 0 done, 1 error, 2 wrong usage; ssh exits with the remote command's own
code, or 255 without one.`

const rootExample = `  {name} get                      # all machines of the namespace
  {name} why web-1                # why it waits or failed, and the next steps
  {name} logs web-1 -f            # follow the driver's log
  {name} ssh web-1 -- uptime      # run a command on its server`

func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	switch args[0] {
	case "apply", "edit":
		return fmt.Errorf("unknown command %q: clusters and machines are Kubernetes objects, so use 'kubectl %[1]s'; docs/get-started-first-cluster.md has a first manifest", args[0])
	case "remove", "rm":
		return fmt.Errorf("unknown command %q: delete a Cluster with 'delete', and a MachineDeployment or Machine with 'kubectl delete', which removes its servers", args[0])
	}
	cmd.SuggestionsMinimumDistance = suggestionDistance
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		return fmt.Errorf("unknown command %q (did you mean %q?)", args[0], similar[0])
	}
	return fmt.Errorf("unknown command %q", args[0])
}
