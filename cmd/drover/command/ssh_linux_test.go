package command_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/cmd/drover/command"
)

// TestSSHInterrupted: the command ends, and the exit code is that of ssh.
func TestSSHInterrupted(t *testing.T) {
	c, _ := withServer(t, true)
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = os.ReadFile(fifo) // the remote command runs
		cancel()
	}()
	r := executeWith(ctx, command.Options{}, "", "--kubeconfig", c.kubeconfig, "-n", c.namespace, "ssh", "web-1", "--", "echo up >"+fifo+"; sleep 600")
	require.Equal(t, result{code: 255}, r)
}

// TestSSH_jumpHostOfTheMachine: drover asks before ssh logs in to a host that the machine names.
func TestSSH_jumpHostOfTheMachine(t *testing.T) {
	c, _ := withServer(t, true)
	machine := &unstructured.Unstructured{}
	machine.SetAPIVersion("rke-machine.cattle.io/v1")
	machine.SetKind("DigitaloceanMachine")
	machine.SetNamespace(c.namespace)
	machine.SetName("web-1")
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"common":{"sshContact":{"jumpHost":"nobody@jump.invalid"}}}}`))
	require.NoError(t, c.Patch(t.Context(), machine, patch))
	for _, args := range [][]string{{"ssh", "web-1", "--", "true"}, {"scp", ".", "web-1:"}, {"keys", "web-1", "--dir", t.TempDir()}} {
		r := c.drover(t, args...)
		require.NotZero(t, r.code, args)
		require.Contains(t, r.errOut, "accept it with -J nobody@jump.invalid, or connect without it with -J none", args)
	}
	c.ok(t, "ssh", "web-1", "-J", "none", "--", "true")
	ask := func(typed string) string {
		var errOut bytes.Buffer
		code := command.Execute(t.Context(), command.Options{Name: "drover", Streams: genericiooptions.IOStreams{In: terminal(t, typed), Out: io.Discard, ErrOut: &errOut}},
			[]string{"--kubeconfig", c.kubeconfig, "-n", c.namespace, "ssh", "web-1", "--", "true"})
		require.Equal(t, 255, code)
		return errOut.String()
	}
	require.Contains(t, ask("n\n"), "Continue? [y/N] error: the jump host nobody@jump.invalid was not accepted; -J none connects without it\n")
	require.Contains(t, ask("y\n"), "Continue? [y/N] ssh: Could not resolve hostname jump.invalid")
}
