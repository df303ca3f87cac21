package explain

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/advice"
)

// TestReach: commands reach the cluster that was asked, for an advice may be to delete something, and contexts have names that are alike.
func TestReach(t *testing.T) {
	for text, want := range map[string]string{
		"Look: kubectl get pods; kubectl logs x": "Look: kubectl --context 'my prod' get pods; kubectl --context 'my prod' logs x",
		"Ask: drover why md/web":                 "Ask: kubectl drover --context 'my prod' why md/web",
		"Save it: (umask 077; kubectl get x)":    "Save it: (umask 077; kubectl --context 'my prod' get x)",
		"Fetch it: curl -fsSL x":                 "Fetch it: curl -fsSL x",
		"drover is not called here":              "drover is not called here",
	} {
		require.Equal(t, want, reach(text, "kubectl drover --context 'my prod'"))
	}
	require.Equal(t, "Look: kubectl get x", reach("Look: kubectl get x", "kubectl drover"))
}

func TestSayTellsNothingTwice(t *testing.T) {
	r, w := &Report{}, advice.Words{"name": "web-1"}
	for range 2 {
		r.advise(own{"Something.", []string{"Look at {pod}", "Ask about {name}", "Ask about {name}"}}, w)
	}
	require.Equal(t, []string{"Something."}, r.Verdict)
	require.Equal(t, []string{"Ask about web-1"}, r.Next)
}

// TestTheManagerIsWhereTheChartPutsIt: the command for its log is the first an operator tries.
func TestTheManagerIsWhereTheChartPutsIt(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "drover", "templates", "manager.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(raw), "kind: Deployment\nmetadata:\n  name: drover-manager\n")
	require.Contains(t, nextManager, "deploy/drover-manager")
}
