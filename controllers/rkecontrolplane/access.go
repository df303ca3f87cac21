package rkecontrolplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/rkecontrolplane/authorities"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/planner"
)

// access maintains the kubeconfig, and reports whether the cluster's API answers.
func (r *Reconciler) access(ctx context.Context, s *scope) error {
	server, err := r.ensureKubeconfig(ctx, s)
	if err != nil {
		return err
	}
	if server == "" {
		return step.Wait(rkev1.WaitingForControlPlaneReason, "no control plane machine is ready yet", 0)
	}
	if r.Clusters == nil {
		return step.Progress(rkev1.APINotReachedReason, "the manager does not check whether "+server+" answers", 0)
	}
	if key := client.ObjectKeyFromObject(s.cluster); !r.Clusters.Reaches(key) {
		if left := r.untilFirstAnswer(s); left > 0 {
			return step.Progress(rkev1.WaitingForControlPlaneReason, "a control plane machine is ready, but "+server+" has not responded to the manager yet", left)
		}
		return step.Wait(rkev1.APINotReachedReason, r.unreached(key, server), 0)
	}
	s.Status.Initialization.ControlPlaneInitialized = new(true)
	s.Status.Initialized, s.Status.Ready = true, true
	s.conditions.True(rkev1.AvailableCondition, rkev1.APIAnswersReason, r.detour(s))
	return nil
}

// answerPatience is how long the API of a new cluster may take to answer before this counts as an
// error; the manager retries every few seconds.
const answerPatience = time.Minute

// untilFirstAnswer returns the rest of answerPatience, 0 if the API has answered before. The
// condition, which is Unknown until then, records the start.
func (r *Reconciler) untilFirstAnswer(s *scope) time.Duration {
	said := s.conditions.Get(rkev1.AvailableCondition)
	switch {
	case s.Status.Initialized || said != nil && said.Reason == rkev1.APINotReachedReason:
		return 0
	case said == nil || said.Status != metav1.ConditionUnknown:
		return answerPatience
	}
	return said.LastTransitionTime.Add(answerPatience).Sub(r.Clock.Now())
}

// unreached names the address that does not answer.
func (r *Reconciler) unreached(cluster client.ObjectKey, server string) string {
	if why := r.Clusters.Refused(cluster); why != "" {
		return "the manager cannot use the API at " + server + ": " + why + ". The cluster may be compromised. The manager retries within five minutes"
	}
	if r.Clusters.Proxied(cluster) {
		return server + " does not respond through the manager's proxy, and the manager called no server of the control plane: add addresses that need no proxy to NO_PROXY"
	}
	return "neither " + server + " nor a server of the control plane responds to the manager. Drover has no tunnel yet to servers that the manager cannot reach"
}

// detour reports that the cluster is not reached through the user's endpoint; empty if it is.
func (r *Reconciler) detour(s *scope) string {
	if s.snapshot.Endpoint == "" || r.Clusters == nil {
		return ""
	}
	server := r.Clusters.Through(client.ObjectKeyFromObject(s.cluster))
	if server == "" {
		return ""
	}
	return fmt.Sprintf("the endpoint %s does not respond to the manager, but the server at %s does", s.snapshot.Endpoint, server)
}

// ensureKubeconfig creates <cluster>-kubeconfig when it knows an address for it, maintains it, and
// returns the address. A kubeconfig that is not ours is the user's and stays as it is.
func (r *Reconciler) ensureKubeconfig(ctx context.Context, s *scope) (string, error) {
	name, now := secret.Name(s.cluster.Name, secret.Kubeconfig), r.Clock.Now()
	found, err := r.known.get(ctx, r.Cache, r.Reader, client.ObjectKey{Namespace: s.Namespace, Name: name})
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading Secret %s: %w", name, err)
	}
	exists := err == nil
	if !exists {
		found = &corev1.Secret{}
	}
	written := authorities.Read(found.Data[secret.KubeconfigDataName], s.snapshot.Authorities)
	if written.Server != "" {
		if err := r.adopt(ctx, s, found); err != nil {
			return "", err
		}
	}
	if exists && !metav1.IsControlledBy(found, s.RKEControlPlane) {
		return "the address in Secret " + name, nil
	}
	server, err := r.server(ctx, s, written.Server)
	if err != nil || server == "" {
		return "", err
	}
	left, content := written.Renew.Sub(now), found.Data[secret.KubeconfigDataName]
	if written.Server != server || left <= 0 {
		if content, left, err = kubeconfigOf(s, server, now); err != nil {
			return "", err
		}
	} else if found.Labels[clusterv1.ClusterNameLabel] == s.cluster.Name { // without it Cluster API does not see the Secret
		s.comeAgain(left)
		return server, nil
	}
	s.comeAgain(left)
	before := found.DeepCopy()
	found.Data = map[string][]byte{secret.KubeconfigDataName: content}
	if exists {
		metav1.SetMetaDataLabel(&found.ObjectMeta, clusterv1.ClusterNameLabel, s.cluster.Name)
		err = r.Client.Patch(ctx, found, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner))
	} else {
		found.ObjectMeta, found.Type = r.meta(s, name), clusterv1.ClusterSecretType
		err = r.Client.Create(ctx, found, client.FieldOwner(fieldOwner))
	}
	if err != nil {
		return "", fmt.Errorf("writing Secret %s: %w", name, err)
	}
	return server, nil
}

// kubeconfigOf signs a new kubeconfig, and returns the time until its renewal.
func kubeconfigOf(s *scope, server string, now time.Time) ([]byte, time.Duration, error) {
	content, err := authorities.Kubeconfig(s.cluster.Name, server, s.snapshot.Authorities, now)
	if err != nil {
		return nil, 0, step.Stall(rkev1.AuthorityInvalidReason, err)
	}
	made := authorities.Read(content, s.snapshot.Authorities)
	if made.Server != server { // it would be written again and again
		return nil, 0, step.Stall(rkev1.EndpointInvalidReason, fmt.Errorf("a kubeconfig cannot use the server %s: the host of controlPlaneEndpoint must be a DNS name or an IP address without scheme and port", server))
	}
	return content, made.Renew.Sub(now), nil
}

// server returns the address for the kubeconfig: the user's endpoint after a control plane is up,
// otherwise the address of a control plane that is up. The present address stays while its machine
// is up, until another machine matches the specification.
func (r *Reconciler) server(ctx context.Context, s *scope, present string) (string, error) {
	stays, up := false, []string(nil)
	for _, m := range s.snapshot.Machines {
		at := slices.IndexFunc(s.result.Machines, func(v planner.Verdict) bool { return v.Machine == m.Name })
		if at < 0 || !m.Roles.ControlPlane || m.Deleting {
			continue
		}
		verdict, found := s.result.Machines[at], addresses(m)
		stays = stays || slices.Contains(found, present) && verdict.Progress == rkev1.UpToDateReason
		if verdict.Done() {
			up = append(up, found...)
		}
	}
	given, err := r.endpoint(ctx, s.cluster)
	switch {
	case err != nil:
		return "", err
	case given.IsValid() && (present != "" || len(up) > 0):
		return "https://" + net.JoinHostPort(given.Host, strconv.Itoa(int(given.Port))), nil
	case len(up) == 0:
		return present, nil
	case stays:
		up = append([]string{present}, slices.DeleteFunc(up, func(one string) bool { return one == present })...)
	}
	return r.answering(ctx, s, up), nil
}

const (
	// maxAsked bounds how many addresses one reconcile probes, and askAgain is the interval between
	// probes.
	maxAsked = 6
	askAgain = 30 * time.Second
)

// answering returns the first address where an API server of the cluster answers the manager, or
// the first address if none answers. It probes no address while the cluster is reached as its
// kubeconfig says. Before another address replaces the first, the first is probed again, because a
// restarting server may have come back.
func (r *Reconciler) answering(ctx context.Context, s *scope, from []string) string {
	key := client.ObjectKeyFromObject(s.cluster)
	if len(from) == 1 || r.Answers == nil || r.Clusters != nil && r.Clusters.Reaches(key) && r.Clusters.Through(key) == "" {
		return from[0]
	}
	s.comeAgain(askAgain)
	answers := func(one string) bool {
		return r.Answers(ctx, strings.TrimPrefix(one, "https://"), s.snapshot.Authorities.Server.Certificate)
	}
	at := slices.IndexFunc(from[:min(maxAsked, len(from))], answers)
	if at <= 0 || answers(from[0]) {
		return from[0]
	}
	return from[at]
}

// addresses returns the URLs where a control plane's API may answer. Machines join by the internal
// address; from outside of the servers' network only the external one answers.
func addresses(m planner.Machine) []string {
	var found []string
	for _, text := range slices.Concat(m.ExternalIPs, m.InternalIPs) {
		if ip := net.ParseIP(text); ip.IsGlobalUnicast() {
			found = append(found, "https://"+net.JoinHostPort(ip.String(), apiPort))
		}
	}
	return found
}

// apiPort is where the API servers of k3s and RKE2 listen.
const apiPort = "6443"

// forgetEvery is how often to check whether the kubelet of an earlier server's Node has fallen
// silent: no event reports this.
const forgetEvery = 10 * time.Second

// forgetNodes deletes the Nodes of a machine's earlier servers while the machine has no known Node,
// and finds Nodes without a Machine. A provider ID belongs to one Machine only, and a Node has the
// ID from its plan.
func (r *Reconciler) forgetNodes(ctx context.Context, s *scope) error {
	if r.Clusters == nil {
		return nil
	}
	machines := map[string]*planner.Machine{}
	for i := range s.snapshot.Machines {
		machines[s.snapshot.Machines[i].ID] = &s.snapshot.Machines[i]
	}
	stay, err := r.Clusters.ForgetNodes(ctx, client.ObjectKeyFromObject(s.cluster), func(node *corev1.Node) bool {
		id := node.Labels[rkev1.NodeMachineLabel]
		if id == "" || node.Spec.ProviderID == "" || slices.Contains(s.providerIDs, node.Spec.ProviderID) {
			return false
		}
		m := machines[id]
		if m == nil {
			s.strays = append(s.strays, node.Name)
		}
		return m != nil && !m.Joined && !m.Deleting && m.Provisioned && m.ProviderID != ""
	})
	for i := range stay {
		machines[stay[i].Labels[rkev1.NodeMachineLabel]].EarlierNode = planner.Node{Name: stay[i].Name, ProviderID: stay[i].Spec.ProviderID}
		s.comeAgain(forgetEvery)
	}
	return err
}

// strayNodes describes Nodes that belong to no Machine and names at most three; empty if all Nodes
// belong to Machines.
func (s *scope) strayNodes() string {
	if len(s.strays) == 0 {
		return ""
	}
	slices.Sort(s.strays)
	s.warned.Cluster, s.warned.Node = s.cluster.Name, s.strays[0]
	s.comeAgain(time.Minute) // their deletion wakes no controller
	return fmt.Sprintf("the cluster has Nodes that belong to no Machine, and pods may be scheduled on them (%d): %s", len(s.strays), strings.Join(s.strays[:min(3, len(s.strays))], ", "))
}

// maxRefused bounds the text about a Node whose change the API server rejects.
const maxRefused = 512

// nodeLabels returns the labels of a machine's Node. A label of the machine takes precedence over the
// same label of the configuration.
func nodeLabels(m *planner.Machine, configured map[string]string) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, configured)
	maps.Copy(labels, m.NodeLabels)
	for role, has := range map[string]bool{"etcd": m.Roles.Etcd, "control-plane": m.Roles.ControlPlane, "worker": m.Roles.Worker} {
		if has {
			labels["node-role.kubernetes.io/"+role] = "true"
		}
	}
	return labels
}

// labelNodes sets the labels and taints of Nodes that kubelets must not set, such as their roles,
// and those that users edited after the registration. While the distribution is unknown, the Nodes
// keep their labels and taints. A rejected change of one Node is reported and does not stop the
// others. If the cluster's API does not answer, labelNodes stops at the first Node.
func (r *Reconciler) labelNodes(ctx context.Context, s *scope) error {
	if r.Clusters == nil || s.snapshot.Releases == nil {
		return nil
	}
	release, err := s.snapshot.Releases.Lookup(s.Spec.KubernetesVersion)
	if err != nil {
		return nil //nolint:nilerr // the planner reports it
	}
	configured := planner.ConfiguredLabels(s.snapshot)
	var errs []error
	var refused []string
	for i := range s.snapshot.Machines {
		m, node := &s.snapshot.Machines[i], s.members[i].Status.NodeRef.Name
		if node == "" || m.Deleting || m.Invalid != "" {
			continue
		}
		taints := planner.NodeTaints(m, release.Distribution)
		err := r.Clusters.KeepNode(ctx, client.ObjectKeyFromObject(s.cluster), node, nodeLabels(m, configured[m.Name]), taints)
		errs = append(errs, err)
		if err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
			break
		}
		if err != nil && !apierrors.IsConflict(err) {
			refused = append(refused, plan.Head(err.Error(), maxRefused))
		}
	}
	if len(refused) > 0 {
		s.refused = slices.Min(refused) // the Machines are in no order
	}
	return errors.Join(errs...)
}
