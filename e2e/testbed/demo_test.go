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
*"get machines"*) echo "NAME PHASE AGE"; echo "shop-server Running 9s"; echo "shop-worker Running 5s";;
*"get clusters"*) echo "NAME VERSION READY"; echo "shop v1 True";;
*custom-columns*) echo y >> looked; echo "NODE PODS"; echo "shop-server 50"
  if [ $(wc -l < looked) -gt 1 ]; then echo "shop-worker 50"; else echo "shop-worker 110"; fi;;
*"get nodes -o wide") echo "shop-server Ready";;
*"get nodes"*) echo z >> counted; echo "shop-server Ready 9s"; echo "shop-worker Ready 9s"
  if [ $(wc -l < counted) -gt 1 ]; then echo "shop-more Ready 1s"; fi;;
*patch*) echo patched;;
*wait*) echo met;;
*apply*) cat > /dev/null; echo applied;;
*delete*) echo deleted;;
esac`,
		"drover":  `case "$*" in "get -o name") ;; "why cluster/shop") echo "matches its specification";; "kubeconfig shop"*) echo "wrote it"; touch .drover/shop.kubeconfig;; get) echo "NAME PHASE";; esac`,
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
	example, err := os.ReadFile(filepath.Join(startDir, "..", "..", "examples", clusterExample))
	require.NoError(t, err)
	text, err := withRegistry(string(example), "registry.test:5000", []byte("an authority"))
	require.NoError(t, err)
	requireGolden(t, clusterExample, text)
	_, err = withRegistry("apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nspec: nothing", "registry.test", nil)
	require.ErrorContains(t, err, "naming the registry in the example of a cluster")
	_, err = withRegistry("{", "registry.test", nil)
	require.ErrorContains(t, err, "reading the example of a cluster")
}
