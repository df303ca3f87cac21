package serverscan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
)

// maxListed bounds the lists in the status.
const maxListed = 500

// knowledge is what the API has, read after the cloud was asked.
type knowledge struct {
	// uids, providerIDs and names are those of all machines; names as their tags have them.
	uids, providerIDs, names map[string]bool
	// clusters are the UIDs of the CAPI Clusters of the ServerScan's namespace; the value tells that one is being deleted.
	clusters map[string]bool
	// here are the machines with a server that this scan should have listed: name → providerID.
	here map[string]string
}

// verdict judges one server; known tells that it has a machine.
func (k knowledge) verdict(s jobrunner.ScannedServer, now time.Time, grace time.Duration) (verdict, message string, known bool) {
	deleting, ours := k.clusters[s.ClusterUID]
	switch {
	case k.uids[s.MachineUID], s.ProviderID != "" && k.providerIDs[s.ProviderID]:
		return "", "", true
	case s.ClusterUID == "":
		return rkev1.VerdictUncertain, "it has no tag that names its Cluster", false
	case !ours:
		return rkev1.VerdictUncertain, "its Cluster is not in this namespace: it is another management cluster's or namespace's, or was moved or deleted", false
	case deleting:
		return rkev1.VerdictUncertain, "its Cluster is being deleted", false
	case s.Machine == "" || k.names[s.Machine]:
		return rkev1.VerdictUncertain, "there is a machine of the name in its tag, which may have been restored from a backup", false
	case s.Created.IsZero():
		return rkev1.VerdictUncertain, "the cloud does not tell how old it is", false
	}
	age := now.Sub(s.Created)
	if age < grace {
		return rkev1.VerdictYoung, fmt.Sprintf("no machine knows it, but it is younger than %s", grace), false
	}
	return rkev1.VerdictOrphan, "no machine knows it", false
}

// judgement is the verdict on all servers.
type judgement struct {
	known, orphans int32
	servers        []rkev1.ScannedServerStatus
	targets        []jobrunner.ScanTarget
	notListed      []string
}

// judge sorts what the cloud listed; removed are the IDs of those that a Job has removed.
func (k knowledge) judge(report jobrunner.ScanReport, now time.Time, grace time.Duration) judgement {
	var out judgement
	listed := map[string]bool{}
	for _, s := range report.Servers {
		listed[s.ProviderID] = true
		verdict, message, known := k.verdict(s, now, grace)
		if known {
			out.known++
			continue
		}
		switch {
		case slices.Contains(report.Removed, s.ID):
			verdict, message = rkev1.VerdictRemoved, "no machine knew it; it was removed"
		case verdict == rkev1.VerdictOrphan:
			out.orphans++
			out.targets = append(out.targets, jobrunner.ScanTarget{ID: s.ID, MachineUID: s.MachineUID})
		}
		out.servers = append(out.servers, status(s, verdict, message))
	}
	for name, providerID := range k.here {
		if !listed[providerID] && strings.HasPrefix(providerID, report.Within) {
			out.notListed = append(out.notListed, name)
		}
	}
	slices.Sort(out.notListed)
	out.notListed = out.notListed[:min(len(out.notListed), maxListed)]
	slices.SortStableFunc(out.servers, func(a, b rkev1.ScannedServerStatus) int {
		return cmp.Or(cmp.Compare(weight(a.Verdict), weight(b.Verdict)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	out.servers = out.servers[:min(len(out.servers), maxListed)]
	return out
}

// weight puts first what somebody has to do something about.
func weight(verdict string) int {
	return slices.Index([]string{rkev1.VerdictOrphan, rkev1.VerdictRemoved, rkev1.VerdictYoung, rkev1.VerdictUncertain}, verdict)
}

func status(s jobrunner.ScannedServer, verdict, message string) rkev1.ScannedServerStatus {
	out := rkev1.ScannedServerStatus{ID: s.ID, Name: s.Name, MachineUID: s.MachineUID, Machine: s.Machine, Cluster: s.Cluster, Verdict: verdict, Message: message}
	if !s.Created.IsZero() {
		out.Created = &metav1.Time{Time: s.Created.UTC().Truncate(time.Second)}
	}
	return out
}
