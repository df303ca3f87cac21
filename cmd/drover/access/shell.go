package access

import (
	"context"
	"strings"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/drover-project/drover/sshkeys"
)

// Session is a command or a shell on a server, connected to the user's streams.
type Session struct {
	Streams genericiooptions.IOStreams
	// Command and its arguments; empty for a login shell.
	Command []string
	// ForceTerminal and NoTerminal overrule that a shell gets a terminal when the user has one.
	ForceTerminal, NoTerminal bool
	// Term is the type of the user's terminal.
	Term string
}

// Run runs the session and returns the remote exit status.
func (s Session) Run(ctx context.Context, client *sshkeys.Client) (int, error) {
	command := sshkeys.Command{Line: CommandLine(s.Command), Stdin: s.Streams.In, Stdout: s.Streams.Out, Stderr: s.Streams.ErrOut}
	shown := len(s.Command) == 0 && IsTerminal(s.Streams.In) && IsTerminal(s.Streams.Out)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.ForceTerminal || shown && !s.NoTerminal {
		terminal, restore, err := userTerminal(ctx, s.Term, s.Streams.In, s.Streams.Out)
		if err != nil {
			return 0, err
		}
		defer restore()
		command.Terminal = terminal
	}
	return client.Run(ctx, command)
}

// CommandLine makes the line for the remote shell: one argument is the line itself, several are a command and its
// arguments, which arrive as they are.
func CommandLine(args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = sshkeys.Quote(arg)
	}
	return strings.Join(quoted, " ")
}
