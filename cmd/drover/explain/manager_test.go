package explain_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/cmd/drover/explain"
	"github.com/drover-project/drover/cmd/drover/facts"
)

func TestAddManager(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	report := func() *explain.Report {
		return &explain.Report{Verdict: []string{"The server runs."}, Next: []string{"Log in."}}
	}
	for name, m := range map[string]*facts.Manager{"that runs": {Running: true, Seen: now}, "that the user may not see": nil} {
		r := report()
		explain.AddManager(r, m, now)
		require.Equal(t, report(), r, "a manager %s", name)
	}
	stopped := report()
	explain.AddManager(stopped, &facts.Manager{Namespace: "system", Seen: now.Add(-5 * time.Minute)}, now)
	require.Equal(t, []string{
		"Drover's manager has not been running since 2026-03-01T11:55:00Z (5m ago). The rest shows an older state.",
		"The server runs.",
	}, stopped.Verdict)
	require.Equal(t, "Find out why it stopped: kubectl -n system describe pods -l app.kubernetes.io/component=manager; "+
		"kubectl -n system logs deploy/drover-manager --previous", stopped.Next[0])
	none := report()
	explain.AddManager(none, &facts.Manager{Namespace: "drover-system"}, now)
	require.Equal(t, "If no manager is installed, install it: docs/install.md", none.Next[0])
}
