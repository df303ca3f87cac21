package e2e

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// validators runs Cluster API's validators and clusterctl on the testbed. They are a module of their own (see there why),
// so they are another go test, which finds its way by the environment.
func validators(t *testing.T) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=20m", "-v", ".", "-ginkgo.v", "-ginkgo.no-color")
	command.Dir = "conformance"
	command.Env = append(os.Environ(), "DROVER_E2E_KUBECONFIG="+bed.Kubeconfig(), "PATH="+bed.Path()+":"+os.Getenv("PATH"))
	command.Stdout, command.Stderr = t.Output(), t.Output()
	require.NoError(t, command.Run())
}
