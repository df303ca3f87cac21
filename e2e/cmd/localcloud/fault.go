package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/drover-project/drover/e2e/cloud/fault"
)

func newFaultCommand(flags *shared) *cobra.Command {
	return group("fault", "Program failures",
		newFaultAddCommand(flags), newFaultClearCommand(flags), newFaultListCommand(flags), newFaultHitsCommand(flags))
}

// effectFlags are the parameters of the named effects.
type effectFlags struct {
	delay   time.Duration
	status  int
	after   bool
	message string
}

// effects are the effects by the name they have on the command line.
func (e effectFlags) effects() map[string]fault.Effect {
	return map[string]fault.Effect{
		"slow":            fault.Slow(e.delay),
		"unauthorized":    fault.Unauthorized(),
		"refused":         fault.Refused(e.message),
		"quota":           fault.Quota(),
		"rate-limited":    fault.RateLimited(e.delay),
		"status":          {Status: e.status, Message: e.message, After: e.after},
		"answer-lost":     fault.AnswerLost(),
		"connection-lost": fault.ConnectionLost(),
		"slow-boot":       fault.SlowBoot(e.delay),
		"never-boots":     fault.NeverBoots(),
		"offline":         fault.Offline(),
		"no-address":      {Boot: &fault.Boot{NoAddress: true}},
		"vanishes":        fault.Vanishes(e.delay),
	}
}

// details are the flags that say more about an effect, by the effects they belong to.
func details() map[string][]string {
	return map[string][]string{
		"delay":   {"slow", "rate-limited", "slow-boot", "vanishes"},
		"status":  {"status"},
		"after":   {"status"},
		"message": {"refused", "status"},
	}
}

// checkDetails refuses a flag that would change nothing: whoever gives it expects something else.
func checkDetails(set *pflag.FlagSet, effect string) error {
	for _, name := range slices.Sorted(maps.Keys(details())) {
		if set.Changed(name) && !slices.Contains(details()[name], effect) {
			return fmt.Errorf("--%s says nothing about the effect %s", name, effect)
		}
	}
	if !set.Changed("delay") && slices.Contains(details()["delay"], effect) && effect != "rate-limited" {
		return fmt.Errorf("the effect %s needs --delay", effect)
	}
	return nil
}

func newFaultAddCommand(flags *shared) *cobra.Command {
	rule := fault.Rule{}
	params := effectFlags{}
	names := strings.Join(slices.Sorted(maps.Keys(params.effects())), ", ")
	command := &cobra.Command{
		Use: "add EFFECT", Short: "Add a fault and print its id", Long: "EFFECT is one of " + names + ".", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			effect, ok := params.effects()[args[0]]
			if !ok {
				return fmt.Errorf("there is no effect %q; there are %s", args[0], names)
			}
			if err := checkDetails(command.Flags(), args[0]); err != nil {
				return err
			}
			rule.Effect = effect
			client, err := flags.client()
			if err != nil {
				return err
			}
			id, err := client.AddFault(command.Context(), rule)
			if err != nil {
				return err
			}
			say(command, "%s\n", id)
			return nil
		},
	}
	addFaultFlags(command.Flags(), &rule, &params)
	return command
}

func addFaultFlags(set *pflag.FlagSet, rule *fault.Rule, params *effectFlags) {
	set.StringVar(&rule.Match, "match", fault.CreateDroplet, `requests it is for: "METHOD /path", with * and a last /**`)
	set.StringVar(&rule.Name, "name", "", "only requests that name such a droplet, key or tag, with *")
	set.StringVar(&rule.Token, "token", "", "only requests with the token of this name")
	set.StringVar(&rule.ID, "id", "", "id of the fault (default: chosen)")
	set.IntVar(&rule.Skip, "skip", 0, "let so many requests pass first")
	set.IntVar(&rule.Count, "count", 0, "how often it is applied; 0 means always")
	set.Float64Var(&rule.Probability, "probability", 0, "share of the requests it is applied to; 0 means all")
	set.Uint64Var(&rule.Seed, "seed", 0, "makes the probability repeatable")
	set.DurationVar(&params.delay, "delay", 0, "latency, boot delay, retry-after or time until it vanishes")
	set.IntVar(&params.status, "status", 500, "HTTP status of the effect status")
	set.BoolVar(&params.after, "after", false, "with status: act before answering")
	set.StringVar(&params.message, "message", "", "message of the effects refused and status")
}

func newFaultClearCommand(flags *shared) *cobra.Command {
	return &cobra.Command{
		Use: "clear [ID]", Short: "Take a fault away, or all", Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return client.ClearFaults(command.Context(), "")
			}
			if args[0] == "" { // a variable of a script that was never set
				return errors.New("the fault to clear has no id; leave it out to clear all")
			}
			return client.ClearFaults(command.Context(), args[0])
		},
	}
}

func newFaultListCommand(flags *shared) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "Print the faults as JSON lines", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			faults, err := client.Faults(command.Context())
			return printLines(command.OutOrStdout(), faults, err)
		},
	}
}

func newFaultHitsCommand(flags *shared) *cobra.Command {
	return &cobra.Command{
		Use: "hits", Short: "Print every fault that was applied, as JSON lines", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			hits, err := client.Hits(command.Context())
			return printLines(command.OutOrStdout(), hits, err)
		},
	}
}
