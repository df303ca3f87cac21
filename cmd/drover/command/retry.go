package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

func newRetry(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry NAME",
		Short: "Ask for another attempt at once",
		Long: `Ask for another attempt to create or remove a machine's server at once, also when no further attempt is due.
It sets the annotation ` + rkev1.RetryAnnotation + ` on the machine.`,
		Example:           `  {name} retry web-1`,
		Args:              arguments(oneName),
		ValidArgsFunction: e.completeOneMachine,
		RunE:              func(cmd *cobra.Command, args []string) error { return e.retry(cmd.Context(), args[0]) },
	}
	return withName(e, cmd)
}

func (e *env) retry(ctx context.Context, name string) error {
	api, m, err := e.machine(ctx, name)
	if err != nil {
		return err
	}
	if m.Phase() == rkev1.PhaseRunning {
		return fmt.Errorf("%s runs: there is nothing to try again", m.Name)
	}
	if err := api.Annotate(ctx, m, rkev1.RetryAnnotation, e.Now().UTC().Format(time.RFC3339Nano)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.Streams.Out, "%s: another attempt was asked for; follow it with '%s logs %s -n %s -f'\n", m.Ref(), e.Name, m.Name, m.Namespace)
	return err
}
