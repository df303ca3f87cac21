package testbed

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// clusterStory are binaries that tell what a good run of the cluster's demo tells.
func clusterStory() map[string]string {
	return map[string]string{
		"localcloud": `case "$1" in ledger) echo "created, removed";; leftovers) echo "nothing is left";; esac`,
		"localkube": `case "$*" in
*"get machines"*) echo x >> asked; echo "NAME PHASE AGE"; echo "one-server Running 9s"
  if [ $(wc -l < asked) -gt 1 ]; then echo "one-worker Running 5s"; else echo "one-worker Provisioning 1s"; fi;;
*custom-columns*) echo y >> looked; echo "NODE PODS"; echo "one-server 50"
  if [ $(wc -l < looked) -gt 1 ]; then echo "one-worker 50"; else echo "one-worker 110"; fi;;
*"get nodes"*) echo "one-server Ready";;
*patch*) echo patched;;
*wait*) echo met;;
*apply*) cat > /dev/null; echo applied;;
*delete*) echo deleted;;
esac`,
		"drover":  `case "$*" in "get -o name") ;; "why cluster/one") echo "matches its specification";; "kubeconfig one"*) echo "wrote it"; touch .drover/one.kubeconfig;; get) echo "NAME PHASE";; esac`,
		"manager": `echo "kind: Everything"`,
	}
}

func TestDemo(t *testing.T) {
	b := startUp(t)
	b.programs(t, clusterStory())
	require.NoError(t, b.Demo(t.Context()))
	requireGolden(t, "demo-screen.txt", b.stable(b.screen.String()))
	require.Contains(t, b.calls(t), "localcloud [clean] [--state-dir] [DIR/.drover/cloud]\n")
	require.NoFileExists(t, b.in(clusterExample))
	require.NoFileExists(t, b.in(clusterKubeconfig), "it is the administrator's")
}

func TestWithRegistry(t *testing.T) {
	example, err := os.ReadFile(filepath.Join(startDir, "..", "..", "examples", "k3s.yaml"))
	require.NoError(t, err)
	text, err := withRegistry(string(example), "registry.test:5000", []byte("an authority"))
	require.NoError(t, err)
	requireGolden(t, "k3s.yaml", text)
	_, err = withRegistry("kind: RKEControlPlane\nspec: nothing", "registry.test", nil)
	require.ErrorContains(t, err, "naming the registry in the example of a cluster")
	_, err = withRegistry("{", "registry.test", nil)
	require.ErrorContains(t, err, "reading the example of a cluster")
}
