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

// access keeps the kubeconfig, and tells whether the cluster's API answers.
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

// answerPatience is how long the API of a new cluster may take to answer before that is a fault: it is asked again after some seconds.
const answerPatience = time.Minute

// untilFirstAnswer is how much of that is left; none where it has answered before. Since when it is asked the condition tells, which is Unknown meanwhile.
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

// unreached says who does not answer.
func (r *Reconciler) unreached(cluster client.ObjectKey, server string) string {
	if why := r.Clusters.Refused(cluster); why != "" {
		return "the manager cannot use the API at " + server + ": " + why + ". The cluster may be compromised. The manager retries within five minutes"
	}
	if r.Clusters.Proxied(cluster) {
		return server + " does not respond through the manager's proxy, and the manager called no server of the control plane: add addresses that need no proxy to NO_PROXY"
	}
	return "neither " + server + " nor a server of the control plane responds to the manager. Drover has no tunnel yet to servers that the manager cannot reach"
}

// detour says that the endpoint which the user gave is not the way by which the cluster is reached; empty if it is.
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

// ensureKubeconfig makes <cluster>-kubeconfig as soon as there is a server that it can name, keeps it, and returns the server. One that is not ours
// is the user's, and left alone.
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

// kubeconfigOf signs a new one, and says in how long it has to be renewed.
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

// server is the address for the kubeconfig: the user's endpoint, once a control plane is up, or that of a control plane which is up. The present
// one stays as long as it is up, and until another is as the specification says.
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
	// maxAsked bounds how many addresses are asked at a look, and askAgain is when that is done again.
	maxAsked = 6
	askAgain = 30 * time.Second
)

// answering is the first of some addresses where an API server of the cluster answers the manager, and the first of all where none does. While the cluster is
// reached as its kubeconfig says nobody is asked. The first is asked again before another takes its place: a server that restarts may come back in between.
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

// addresses are where a control plane's API may answer. From outside of the servers' own network, in which machines join by the internal address, it is
// the external one.
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

// forgetEvery is how often it is looked whether the kubelet of an earlier server's Node has fallen silent: nobody wakes for that.
const forgetEvery = 10 * time.Second

// forgetNodes has Nodes of machines' earlier servers deleted, for a machine that no Node is known of, and finds Nodes of no Machine. A server's provider ID is no
// other Machine's, and its Node has it from its plan.
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

// strayNodes tells of Nodes that are of no Machine, of at most three; empty if none is.
func (s *scope) strayNodes() string {
	if len(s.strays) == 0 {
		return ""
	}
	slices.Sort(s.strays)
	s.warned.Cluster, s.warned.Node = s.cluster.Name, s.strays[0]
	s.comeAgain(time.Minute) // nobody wakes when they are deleted
	return fmt.Sprintf("the cluster has Nodes that belong to no Machine, and pods may be scheduled on them (%d): %s", len(s.strays), strings.Join(s.strays[:min(3, len(s.strays))], ", "))
}

// maxRefused bounds what is told of a Node that its API server refuses.
const maxRefused = 512

// labelNodes gives Nodes what their kubelets must not set themselves, such as their roles, and labels and taints that were edited after they registered. While
// it is not known which distribution they run they keep what they have. A Node that is refused something is told of, and keeps no other from its own; where the
// cluster's API does not answer, none is tried after the first.
func (r *Reconciler) labelNodes(ctx context.Context, s *scope) error {
	if r.Clusters == nil || s.snapshot.Releases == nil {
		return nil
	}
	release, err := s.snapshot.Releases.Lookup(s.Spec.KubernetesVersion)
	if err != nil {
		return nil //nolint:nilerr // the planner tells it
	}
	configured := planner.ConfiguredLabels(s.snapshot)
	var errs []error
	var refused []string
	for i := range s.snapshot.Machines {
		m, node := &s.snapshot.Machines[i], s.members[i].Status.NodeRef.Name
		if node == "" || m.Deleting || m.Invalid != "" {
			continue
		}
		labels := maps.Clone(m.NodeLabels)
		for name, value := range configured[m.Name] {
			if _, annotated := labels[name]; !annotated {
				labels[name] = value
			}
		}
		for role, has := range map[string]bool{"etcd": m.Roles.Etcd, "control-plane": m.Roles.ControlPlane, "worker": m.Roles.Worker} {
			if has {
				labels["node-role.kubernetes.io/"+role] = "true"
			}
		}
		taints := planner.NodeTaints(m, release.Distribution)
		err := r.Clusters.KeepNode(ctx, client.ObjectKeyFromObject(s.cluster), node, labels, taints)
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
