package serverscan

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// maxListed bounds the lists in the status.
const maxListed = 500

// knowledge is the content of the API, read after the cloud's answer.
type knowledge struct {
	// namespace is the ServerScan's, and driver its driver.
	namespace, driver string
	// uids are the UIDs of all machines, with the providerID of those that have one. providerIDs
	// and names are also of all machines, names in the form of their tags.
	uids               map[string]string
	providerIDs, names map[string]bool
	// management is this management cluster. deleted are the UIDs of Clusters that were deleted and
	// not moved, according to the user. elsewhere are the UIDs of Clusters of other namespaces.
	management         string
	deleted, elsewhere map[string]bool
	// clusters are the UIDs of the CAPI Clusters of the ServerScan's namespace; the value is true
	// if the Cluster is being deleted.
	clusters map[string]bool
	// agentServers are the IDs of the servers from which an agent of the namespace has registered.
	agentServers map[string]bool
	// here are the machines with a server that this scan should have listed: name → providerID.
	here map[string]string
	// conditions are the ServerExists conditions of these machines; uidOf are their UIDs, and
	// readySince the times since when they are Ready.
	conditions map[string]metav1.Condition
	uidOf      map[string]string
	readySince map[string]time.Time
}

// verdict judges one server of a report; it is empty for a server of a machine.
func (k knowledge) verdict(s state.ScannedServer, in crowd, now time.Time, grace time.Duration) (verdict, message string) {
	recorded := k.besides(s, in)
	switch doubt := k.doubt(s, in); {
	case recorded != "" && now.Sub(s.Created) < grace:
		return rkev1.VerdictYoung, fmt.Sprintf("the cloud made it beside its machine's server %s, but it is younger than %s", recorded, grace)
	case recorded != "":
		return rkev1.VerdictOrphan, fmt.Sprintf("the cloud made it beside its machine's server %s, from which the machine's agent has registered", recorded)
	case doubt != "":
		return rkev1.VerdictUncertain, doubt
	case k.has(s):
		return "", ""
	case now.Sub(s.Created) < grace:
		return rkev1.VerdictYoung, fmt.Sprintf("no machine has it, but it is younger than %s", grace)
	}
	return rkev1.VerdictOrphan, "no machine has it"
}

// besides returns the ID of a machine's recorded server if the server s was certainly made beside
// it: the same report has both, and the machine's agent has registered from the recorded one.
// Otherwise it is empty.
func (k knowledge) besides(s state.ScannedServer, in crowd) string {
	recorded := in.at[k.uids[s.MachineUID]]
	deleting, isOurs := k.clusters[s.ClusterUID]
	switch {
	case !k.isAnother(s, in.within), in.ids[s.ID] > 1, in.ids[recorded.ID] > 1, recorded.MachineUID != s.MachineUID:
		return ""
	case !k.agentServers[recorded.ID], k.agentServers[s.ID]:
		return ""
	case !isOurs, deleting, s.Management != "" && s.Management != k.management, s.Created.IsZero(), clouds.Of(k.driver).TagsCopied:
		return ""
	}
	return recorded.ID
}

// has reports whether a machine knows a server.
func (k knowledge) has(s state.ScannedServer) bool {
	_, known := k.uids[s.MachineUID]
	return known || s.ProviderID != "" && k.providerIDs[s.ProviderID]
}

// doubt returns why a server is neither certainly a machine's nor an orphan; empty if it is
// certain.
func (k knowledge) doubt(s state.ScannedServer, in crowd) string {
	switch {
	case in.ids[s.ID] > 1:
		return "another server has the same ID"
	case k.has(s):
		if k.isAnother(s, in.within) {
			return "its machine has another server, and it is not known from which of the two the machine's agent has registered"
		}
	case s.ClusterUID == "":
		return "it has no tag that names its Cluster"
	case s.Management != "" && k.management != "" && s.Management != k.management:
		return "it belongs to another management cluster: its Cluster was created there, or was moved here"
	case k.doubtOfCluster(s) != "":
		return k.doubtOfCluster(s)
	case s.Machine == "" || k.names[s.Machine]:
		return "a machine has the name in its tag, and may have been restored from a backup"
	case in.uids[s.MachineUID] > 1:
		return "another server has the tag of the same machine: one may be a copy of the other"
	case clouds.Of(k.driver).TagsCopied && !isNamedByMachine(s, k.namespace):
		return "its name differs from its machine's name: it may be a clone, which keeps the tags of its source"
	case s.Created.IsZero():
		return "the cloud does not report its age"
	}
	return ""
}

// doubtOfCluster returns why a server's Cluster speaks against an orphan. If this management
// cluster has created the Cluster and it no longer exists, only a user knows whether it was deleted
// or moved: after a move its servers are still in use.
func (k knowledge) doubtOfCluster(s state.ScannedServer) string {
	deleting, ours := k.clusters[s.ClusterUID]
	switch {
	case deleting:
		return "its Cluster is being deleted"
	case ours:
	case k.elsewhere[s.ClusterUID] || !strings.HasPrefix(s.Machine, k.namespace+"-"):
		return "its Cluster is in another namespace"
	case s.Management == "" || s.Management != k.management:
		return "its Cluster is not in this namespace: it belongs to another management cluster or namespace, or was moved or deleted"
	case !k.deleted[s.ClusterUID]:
		return fmt.Sprintf("its Cluster was created in this management cluster and no longer exists. If it was deleted and not moved by clusterctl, confirm this with drover gc --deleted-cluster %s", s.ClusterUID)
	}
	return ""
}

// isAnother reports whether a server's machine has another server. A providerID of another form,
// which the user has set, or of another place proves nothing.
func (k knowledge) isAnother(s state.ScannedServer, within string) bool {
	own := k.uids[s.MachineUID]
	if own == "" || s.ProviderID == "" || k.providerIDs[s.ProviderID] {
		return false
	}
	form, _, _ := strings.Cut(s.ProviderID, "://")
	return strings.HasPrefix(own, form+"://") && strings.HasPrefix(own, within) && !strings.EqualFold(own, s.ProviderID)
}

// isNamedByMachine reports whether a server still has the name that it got from the machine in its
// tag.
func isNamedByMachine(s state.ScannedServer, namespace string) bool {
	machine, here := strings.CutPrefix(s.Machine, namespace+"-")
	name, err := jobrunner.InstanceName(machine, max(len(s.Name), jobrunner.MinInstanceName))
	return here && err == nil && name == s.Name
}

// crowd holds the facts that only all servers of a report together show.
type crowd struct {
	// ids and uids count the servers of an ID and of a machine's UID.
	ids, uids map[string]int
	// at are the servers by providerID.
	at map[string]state.ScannedServer
	// within as in the report.
	within string
}

func crowdOf(report state.ScanReport) crowd {
	in := crowd{ids: map[string]int{}, uids: map[string]int{}, at: map[string]state.ScannedServer{}, within: report.Within}
	for _, s := range report.Servers {
		in.ids[s.ID]++
		in.uids[s.MachineUID]++
		if s.ProviderID != "" {
			in.at[s.ProviderID] = s
		}
	}
	return in
}

// judge turns the cloud's list into the findings of a status, and returns the servers to remove.
// The report names the servers that a Job has removed.
func (k knowledge) judge(report state.ScanReport, now time.Time, grace time.Duration) (out rkev1.ServerScanStatus, targets []jobrunner.ScanTarget) {
	in, listed := crowdOf(report), map[string]bool{}
	for _, s := range report.Servers {
		listed[s.ProviderID] = true
		verdict, message := k.verdict(s, in, now, grace)
		switch {
		case verdict == "":
			out.Known++
			continue
		case slices.Contains(report.Removed, s.ID):
			verdict, message = rkev1.VerdictRemoved, "no machine had it; it was removed"
		case verdict == rkev1.VerdictOrphan:
			out.Orphans++
			targets = append(targets, jobrunner.ScanTarget{ID: s.ID, MachineUID: s.MachineUID, Beside: k.besides(s, in)})
		}
		entry := rkev1.ScannedServerStatus{ID: s.ID, Name: s.Name, MachineUID: s.MachineUID, Machine: s.Machine, Cluster: s.Cluster, Verdict: verdict, Message: message}
		if !s.Created.IsZero() {
			entry.Created = &metav1.Time{Time: s.Created.UTC().Truncate(time.Second)}
		}
		out.Servers = append(out.Servers, entry)
	}
	for name, providerID := range k.asked(report) {
		if !listed[providerID] {
			out.MachinesNotListed = append(out.MachinesNotListed, name)
		}
	}
	slices.Sort(out.MachinesNotListed)
	out.MachinesNotListed = out.MachinesNotListed[:min(len(out.MachinesNotListed), maxListed)]
	// First the servers that need an action of a user.
	order := []string{rkev1.VerdictOrphan, rkev1.VerdictRemoved, rkev1.VerdictYoung, rkev1.VerdictUncertain}
	slices.SortStableFunc(out.Servers, func(a, b rkev1.ScannedServerStatus) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Verdict), slices.Index(order, b.Verdict)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	out.Servers = out.Servers[:min(len(out.Servers), maxListed)]
	return out, targets
}

// asked are the machines that a report should have listed.
func (k knowledge) asked(report state.ScanReport) map[string]string {
	asked := maps.Clone(k.here)
	maps.DeleteFunc(asked, func(_, providerID string) bool { return !strings.HasPrefix(providerID, report.Within) })
	return asked
}

const pageSize = 500

// know reads the API live. A failed read is an error, because every verdict depends on it.
func (r *Reconciler) know(ctx context.Context, scan *rkev1.ServerScan) (knowledge, error) {
	k := knowledge{namespace: scan.Namespace, driver: scan.Spec.Driver, management: r.Management, deleted: map[string]bool{}, elsewhere: map[string]bool{}, uids: map[string]string{},
		providerIDs: map[string]bool{}, agentServers: map[string]bool{}, names: map[string]bool{}, clusters: map[string]bool{}, here: map[string]string{}, conditions: map[string]metav1.Condition{},
		uidOf: map[string]string{}, readySince: map[string]time.Time{}}
	for _, uid := range scan.Spec.DeletedClusters {
		k.deleted[uid] = true
	}
	clusters := &metav1.PartialObjectMetadataList{}
	clusters.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("ClusterList"))
	if err := r.Reader.List(ctx, clusters); err != nil {
		return k, fmt.Errorf("listing Clusters: %w", err)
	}
	for i := range clusters.Items {
		if cluster := &clusters.Items[i]; cluster.Namespace == scan.Namespace {
			k.clusters[string(cluster.UID)] = !cluster.DeletionTimestamp.IsZero()
		} else {
			k.elsewhere[string(cluster.UID)] = true
		}
	}
	plans := &metav1.PartialObjectMetadataList{}
	plans.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.Reader.List(ctx, plans, client.InNamespace(scan.Namespace), client.HasLabels{rkev1.MachineIDLabel}); err != nil {
		return k, fmt.Errorf("listing plan Secrets: %w", err)
	}
	for i := range plans.Items {
		if id := clouds.Of(scan.Spec.Driver).AgentServer(plans.Items[i].Annotations[rkev1.AgentServerAnnotation]); id != "" {
			k.agentServers[id] = true
		}
	}
	// All kinds in the API, served or not: if the machines of a kind cannot be listed, the scan
	// fails.
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := r.Reader.List(ctx, crds, client.HasLabels{rkev1.NodeDriverLabel}); err != nil {
		return k, fmt.Errorf("listing the kinds of machines: %w", err)
	}
	for i := range crds.Items {
		spec := crds.Items[i].Spec
		if spec.Group != rkev1.MachineGroupVersion.Group || !strings.HasSuffix(spec.Names.Kind, "Machine") {
			continue
		}
		kind := rkev1.MachineGroupVersion.WithKind(spec.Names.Kind)
		if err := eachMachine(ctx, r.Reader, kind, func(machine *unstructured.Unstructured) { k.add(scan, machine) }); err != nil {
			return k, err
		}
	}
	return k, nil
}

// eachMachine reads the machines of a kind, a page at a time.
func eachMachine(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, do func(*unstructured.Unstructured), in ...client.ListOption) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	options := (&client.ListOptions{Limit: pageSize}).ApplyOptions(in)
	for {
		if err := reader.List(ctx, list, options); err != nil {
			return fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			do(&list.Items[i])
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

func (k knowledge) add(scan *rkev1.ServerScan, machine *unstructured.Unstructured) {
	object := rkev1.DriverMachine{Unstructured: machine}
	providerID := object.ProviderID()
	k.uids[string(machine.GetUID())] = providerID
	k.names[jobrunner.Tags(jobrunner.MachineRef{Namespace: machine.GetNamespace(), Name: machine.GetName()})[jobrunner.TagMachine]] = true
	if providerID == "" {
		return
	}
	k.providerIDs[providerID] = true
	if machine.GetNamespace() != scan.Namespace || machine.GetKind() != crdgen.KindsOf(scan.Spec.Driver).Machine ||
		object.CredentialName() != scan.Spec.CloudCredentialSecretName {
		return
	}
	// Machines that are not ready yet are left out. A status that cannot be read proves nothing.
	if status, err := object.Status(); err == nil && status.Ready && machine.GetDeletionTimestamp() == nil {
		k.here[machine.GetName()] = providerID
		k.uidOf[machine.GetName()] = string(machine.GetUID())
		if ready := meta.FindStatusCondition(status.Conditions, rkev1.ReadyCondition); ready != nil && ready.Status == metav1.ConditionTrue {
			k.readySince[machine.GetName()] = ready.LastTransitionTime.Time
		}
		k.conditions[machine.GetName()] = ptr.Deref(meta.FindStatusCondition(status.Conditions, rkev1.ServerExistsCondition), metav1.Condition{})
	}
}
