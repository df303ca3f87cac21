package command_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/cmd/drover/command"
)

// terminal is one in which somebody types; what is typed waits until it is read.
func terminal(t *testing.T, typed string) *os.File {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = user.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	file, err := os.OpenFile(filepath.Join("/dev/pts", strconv.Itoa(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	_, err = user.WriteString(typed)
	require.NoError(t, err)
	return file
}

// dying is a machine that is being deleted and cannot go.
func dying(t *testing.T, c *cluster) *unstructured.Unstructured {
	t.Helper()
	machine := c.apply(t, strings.Replace(waitingMachine, "name: db-1", "name: db-1\n  finalizers: [drover.cattle.io/machine]", 1))
	require.NoError(t, c.Delete(t.Context(), machine))
	t.Cleanup(func() {
		free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		require.NoError(t, c.Patch(context.WithoutCancel(t.Context()), machine, free))
	})
	return machine
}

// TestConfirm: a server is given up by whoever writes the machine's name, and by nobody else.
func TestConfirm(t *testing.T) {
	for name, tt := range map[string]struct {
		typed, want string
		given       bool
	}{
		"the name":          {typed: "db-1\n", given: true},
		"with blanks":       {typed: "  db-1 \n", given: true},
		"another name":      {typed: "web-1\n", want: "not confirmed; nothing was changed"},
		"yes is no name":    {typed: "yes\n", want: "not confirmed; nothing was changed"},
		"another case":      {typed: "DB-1\n", want: "not confirmed; nothing was changed"},
		"just return":       {typed: "\n", want: "not confirmed; nothing was changed"},
		"end of file":       {typed: "\x04", want: "not confirmed; nothing was changed"},
		"the name, unended": {typed: "db-1\x04\x04", given: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			machine := dying(t, c)
			var out, errOut bytes.Buffer
			code := command.Execute(t.Context(), command.Options{Name: "drover", Streams: genericiooptions.IOStreams{In: terminal(t, tt.typed), Out: &out, ErrOut: &errOut}},
				[]string{"--kubeconfig", c.kubeconfig, "-n", c.namespace, "abandon", "db-1"})
			require.Contains(t, out.String(), "These parts of db-1 may remain", "told before it is asked")
			require.True(t, strings.HasPrefix(errOut.String(), "Write the machine's name to give its server up: "), errOut.String())
			annotations := c.read(t, machine).GetAnnotations()
			if tt.given {
				require.Zero(t, code, errOut.String())
				require.Equal(t, map[string]string{"drover.cattle.io/abandon": "db-1"}, annotations)
				require.True(t, strings.HasSuffix(out.String(), "genericmachine.rke-machine.cattle.io/db-1: its server was given up\n"), out.String())
				return
			}
			require.Equal(t, 1, code)
			require.Equal(t, "error: "+tt.want+"\n", strings.TrimPrefix(errOut.String(), "Write the machine's name to give its server up: "))
			require.Empty(t, annotations)
		})
	}
}

// TestAbandonRefusals: what to do instead is told with the command that does it.
func TestAbandonRefusals(t *testing.T) {
	c := newCluster(t)
	c.apply(t, waitingMachine)
	require.Equal(t, "db-1 is not being deleted: only a machine whose removal fails is abandoned. To delete its server and the data on it, delete it (kubectl -n "+c.namespace+" delete genericmachine.rke-machine.cattle.io/db-1)",
		requireError(t, c.drover(t, "abandon", "db-1", "--yes")))
	c.apply(t, runningMachine)
	require.Equal(t, "web-1 is not being deleted: only a machine whose removal fails is abandoned. To delete its server and the data on it, delete its CAPI Machine (kubectl -n "+c.namespace+" delete machine.cluster.x-k8s.io/pool-abc)",
		requireError(t, c.drover(t, "abandon", "web-1")))
	none := execute(t, emptyOptions, "db-1\n", "--kubeconfig", c.kubeconfig, "-n", dyingElsewhere(t), "abandon", "db-1")
	require.Equal(t, 1, none.code)
	require.Equal(t, "error: this needs a yes: call it in a terminal, or with --yes\n", none.errOut, "a pipe that says the name is no user")
}

// dyingElsewhere is the namespace of a machine that is being deleted.
func dyingElsewhere(t *testing.T) string {
	t.Helper()
	c := newCluster(t)
	dying(t, c)
	return c.namespace
}

// TestDelete_confirm: a Cluster is deleted after its name was typed, and only then.
func TestDelete_confirm(t *testing.T) {
	for typed, code := range map[string]int{"store\n": 0, "yes\n": 1, "\n": 1} {
		c := newCluster(t)
		object := c.apply(t, storeCluster)
		var out, errOut bytes.Buffer
		got := command.Execute(t.Context(), command.Options{Name: "drover", Streams: genericiooptions.IOStreams{In: terminal(t, typed), Out: &out, ErrOut: &errOut}},
			[]string{"--kubeconfig", c.kubeconfig, "-n", c.namespace, "delete", "cluster/store"})
		require.Equal(t, code, got, errOut.String())
		require.True(t, strings.HasPrefix(errOut.String(), "Write the Cluster's name to delete it: "), errOut.String())
		err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		require.Equal(t, code == 0, err != nil)
	}
}
