package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/cmd/drover/facts"
)

// AddManager puts first in a report that Drover's manager does not run, because the rest of the
// report then shows an old state. It changes nothing if the manager runs, or if m is nil.
func AddManager(r *Report, m *facts.Manager, now time.Time) {
	if m == nil || m.Running {
		return
	}
	says := "Drover's manager is not running: no manager has a Lease in this cluster. A manager with --leader-elect=false has none."
	next := "If no manager is installed, install it: docs/install.md"
	if !m.Seen.IsZero() {
		says = fmt.Sprintf("Drover's manager has not been running since %s (%s ago). The rest shows an older state.",
			m.Seen.UTC().Format(time.RFC3339), facts.Age(now, m.Seen))
		next = fmt.Sprintf("Find out why it stopped: kubectl -n %[1]s describe pods -l app.kubernetes.io/component=manager; kubectl -n %[1]s logs deploy/drover-manager --previous",
			m.Namespace)
	}
	r.Verdict = slices.Insert(r.Verdict, 0, says)
	r.Next = slices.Insert(r.Next, 0, next)
}
