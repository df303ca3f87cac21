package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/access"
	"github.com/drover-project/drover/cmd/drover/explain"
	"github.com/drover-project/drover/cmd/drover/inventory"
)

func newAbandon(e *env) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "abandon NAME",
		Short: "Give up the server of a machine that cannot be removed",
		Long: `Give up the server of a machine that is being deleted if the server cannot be removed. The command lists the objects that may
remain in the cloud, asks for confirmation, and sets the annotation ` + rkev1.AbandonAnnotation + `. The machine is then deleted.
Remove the remaining objects in the cloud yourself.`,
		Example:           `  {name} abandon web-1`,
		Args:              oneName,
		ValidArgsFunction: e.completeOneMachine,
		RunE:              func(cmd *cobra.Command, args []string) error { return e.abandon(cmd.Context(), args[0], yes) },
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "Do not ask.")
	return cmd
}

func (e *env) abandon(ctx context.Context, name string, yes bool) error {
	api, m, err := e.machine(ctx, name)
	if err != nil {
		return err
	}
	if m.DeletionTimestamp == nil {
		// A CAPI Machine's objects are deleted together with it.
		what, ref := "it", m.Ref()
		if owner := m.CAPIMachineName(); owner != "" {
			what, ref = "its CAPI Machine", "machine.cluster.x-k8s.io/"+owner
		}
		return fmt.Errorf("%s is not being deleted: only a machine whose removal fails is abandoned. To delete its server and the data on it, delete %s (kubectl -n %s delete %s)",
			m.Name, what, m.Namespace, ref)
	}
	// State that cannot be read is shown as unknown; the user decides.
	state, err := api.State(ctx, m)
	if err != nil {
		e.note("%s", inventory.Plain(err))
	}
	if _, err := io.WriteString(e.Streams.Out, explain.Remains(m, state)); err != nil {
		return err
	}
	if err := e.confirm("Write the machine's name to give its server up: ", m.Name, yes); err != nil {
		return err
	}
	if err := api.Annotate(ctx, m, rkev1.AbandonAnnotation, m.Name); err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.Streams.Out, "%s: its server was given up\n", m.Ref())
	return err
}

// confirm asks for the object's name, unless the user confirmed in advance. Without a terminal it
// returns an error.
func (e *env) confirm(question, name string, yes bool) error {
	if yes {
		return nil
	}
	if !access.IsTerminal(e.Streams.In) {
		return errors.New("this needs a yes: call it in a terminal, or with --yes")
	}
	answer, err := e.ask(question)
	if err != nil {
		return err
	}
	if answer != name {
		return errors.New("not confirmed; nothing was changed")
	}
	return nil
}

// ask asks the user in the terminal and returns the answer without spaces around it.
func (e *env) ask(question string) (string, error) {
	if _, err := io.WriteString(e.Streams.ErrOut, question); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(io.LimitReader(e.Streams.In, 1024)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading the answer: %w", err)
	}
	return strings.TrimSpace(answer), nil
}

// askYes asks a question that only y or yes accepts.
func (e *env) askYes(question string) (bool, error) {
	answer, err := e.ask(question + " [y/N] ")
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", err
}
