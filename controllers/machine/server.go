package machine

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi/workload"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

// collectState copies the server's addresses and failure domain from the pod's record to the
// status.
func (r *Reconciler) collectState(_ context.Context, s *scope) error {
	server, err := s.state.Server.Value, s.state.Server.Err
	if s.state.Server.IsAbsent() {
		return step.Wait(rkev1.StateMissingReason, fmt.Sprintf("the create Job succeeded, but the state Secret %s has no server, because it was changed afterwards. Delete the machine to replace it",
			jobrunner.StateSecretName(s.GetName())), 0)
	}
	if err != nil {
		return step.Wait(rkev1.StateMissingReason, fmt.Sprintf("the state Secret %s cannot be read: %v", jobrunner.StateSecretName(s.GetName()), err), 0)
	}
	s.status.Addresses, s.status.FailureDomain = nil, server.FailureDomain
	for _, address := range server.Addresses {
		s.status.Addresses = append(s.status.Addresses, clusterv1.MachineAddress{
			Type: clusterv1.MachineAddressType(address.Type), Address: address.Address})
	}
	if name := s.state.InstanceName; name != "" {
		s.status.InstanceName = name
	}
	s.reportDelivery()
	if s.conditions.Get(rkev1.ServerExistsCondition) == nil {
		// After this, the scans write the condition.
		message := fmt.Sprintf("it is unknown whether the server still exists, because Drover cannot list the servers of driver %s", r.kind.Driver)
		if clouds.Of(r.kind.Driver).Lists {
			// clusterctl shows one line of 100 characters.
			message = "the manager has not checked yet whether the cloud lists the server. It checks every --scan-interval"
		}
		s.conditions.Set(rkev1.ServerExistsCondition, metav1.ConditionUnknown, rkev1.ServerNotSeenReason, message)
	}
	s.conditions.Hold(rkev1.ServerExistsCondition)
	return nil
}

// reportDelivery reports whether the Job saw the bootstrap data on the server. Earlier versions of
// the Job did not check.
func (s *scope) reportDelivery() {
	result := s.state.Result.Value
	if s.state.Result.Err != nil || result.Operation != state.Create || result.Delivery == nil {
		return
	}
	status, reason, message := metav1.ConditionUnknown, rkev1.NotVerifiedReason, result.Delivery.Message
	switch proven := result.Delivery.Proven; {
	case proven == nil:
	case !*proven:
		status, reason = metav1.ConditionFalse, rkev1.NotDeliveredReason
		message += fmt.Sprintf(". The server is kept for inspection: drover ssh %s -n %s -- cloud-init status --long. Delete the machine to replace it",
			s.GetName(), s.GetNamespace())
	case result.Delivery.ExitCode != 0:
		// Drivers that bring the script over SSH fail with the same reason.
		status, reason = metav1.ConditionFalse, rkev1.BootstrapFailedReason
		message += fmt.Sprintf(". The server is kept for inspection: drover ssh %s -n %s -- tail /var/log/cloud-init-output.log. Delete the machine to replace it",
			s.GetName(), s.GetNamespace())
	default:
		status, reason = metav1.ConditionTrue, rkev1.DeliveredReason
	}
	s.conditions.Set(rkev1.BootstrapDeliveredCondition, status, reason, message)
}

// findProviderID sets spec.providerID. The first of these sources counts: the user's value, the
// driver's record, the Node that the server became.
func (r *Reconciler) findProviderID(ctx context.Context, s *scope) error {
	given := s.ProviderID() != ""
	if !given {
		id, err := r.providerID(ctx, s)
		if err != nil {
			return err
		}
		if err := s.SetProviderID(id); err != nil {
			return fmt.Errorf("setting spec.providerID: %w", err)
		}
	}
	if unblockMove(s); !given || blocksMove(rkev1.DriverMachine{Unstructured: s.before}) {
		if err := r.patch(ctx, s); err != nil {
			return fmt.Errorf("writing spec.providerID: %w", err)
		}
	}
	s.status.Initialization.Provisioned = new(true)
	return nil
}

func (r *Reconciler) providerID(ctx context.Context, s *scope) (string, error) {
	if s.state.Server.Value.ProviderID != "" {
		return s.state.Server.Value.ProviderID, nil
	}
	id, missing, err := r.recordedProviderID(ctx, s)
	if err != nil || id != "" {
		return id, err
	}
	own := fmt.Sprintf("drover://%s/%s", s.GetNamespace(), s.GetName())
	// The kubelet of our own bootstrap gets the ID with its plan, and gets no plan before the ID is
	// known: a wait for the Node would never end.
	unknown := "the driver's record does not contain the provider ID" + missing
	if s.machine != nil && s.machine.Spec.Bootstrap.ConfigRef.GroupKind() == ourBootstrap {
		if missing != "" {
			return "", step.Wait(rkev1.ProviderIDMissingReason, unknown+": set spec.providerID, which Drover passes to the kubelet", safetyNet)
		}
		return own, nil
	}
	return r.nodeProviderID(ctx, s, own, step.Wait(rkev1.WaitingForNodeReason, unknown+
		": Drover takes it from the Node after the server has joined its cluster (found by its addresses or name), or you set spec.providerID", safetyNet))
}

// nodeProviderID returns the provider ID of the Node that the server became. A Node without one
// gets our own ID. Without such a Node, nodeProviderID returns the error wait.
func (r *Reconciler) nodeProviderID(ctx context.Context, s *scope, own string, wait error) (string, error) {
	if r.Nodes == nil || s.machine == nil || s.cluster == nil {
		return "", wait
	}
	r.watchIndex.note(s.request, watchKey{kind: "Node", name: client.ObjectKeyFromObject(s.cluster), uid: s.machine.UID})
	r.watchIndex.note(s.request, watchKey{kind: "Node", name: client.ObjectKeyFromObject(s.cluster)})
	var addresses []string
	name := s.state.InstanceName
	for _, address := range s.state.Server.Value.Addresses {
		addresses = append(addresses, address.Address)
		if address.Type == string(clusterv1.MachineHostName) {
			name = address.Address // an existing host keeps its own
		}
	}
	id, err := r.Nodes.ProviderID(ctx, client.ObjectKeyFromObject(s.cluster), workload.Server{Machine: s.machine.UID, Name: name,
		Addresses: addresses, ProviderID: own})
	if err != nil {
		return "", fmt.Errorf("looking for the machine's Node: %w", err)
	}
	if id == "" {
		return "", wait
	}
	return id, nil
}

// recordedProviderID derives the provider ID from the driver's record in the state, with the
// present facts about the driver: the NodeDriver may have got a template after the server was made.
// A change of the NodeDriver wakes the machine. The second result is a text for a message. It names
// the fields of the template that are empty in the record: the record keeps no credential field,
// and the present credential may belong to another account.
func (r *Reconciler) recordedProviderID(ctx context.Context, s *scope) (string, string, error) {
	found, err := r.nodeDriver(ctx, s)
	if err != nil || found == nil {
		return "", "", err
	}
	cloud, template := clouds.Of(found.DriverName()), found.Spec.ProviderIDTemplate
	record, err := sshkeys.Record(s.state.ExtractedConfig)
	if err != nil || record == nil {
		return "", "", nil //nolint:nilerr // an unreadable record proves nothing; the Node may have the ID
	}
	id, missing := cloud.Server(clouds.Facts{Record: record, Template: template}).ProviderID, clouds.Missing(template, record)
	if id != "" || len(missing) == 0 {
		return id, "", nil
	}
	return "", fmt.Sprintf(" (providerIDTemplate of the NodeDriver names %s, which is empty in the record; the record never contains credential fields)", strings.Join(missing, ", ")), nil
}
