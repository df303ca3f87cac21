package machine

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// collectState takes over what the pod left of the server: its addresses and where it is.
func (r *Reconciler) collectState(_ context.Context, s *scope) error {
	server, err := s.state.Server.Value, s.state.Server.Err
	if s.state.Server.IsAbsent() {
		return step.Wait(rkev1.StateMissingReason, fmt.Sprintf("the create Job succeeded, but the state Secret %s does not tell of a server: somebody changed it. Delete the machine to have another one made",
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
	s.tellDelivery()
	if s.conditions.Get(rkev1.ServerExistsCondition) == nil {
		// From here on it is the scans' to say.
		message := fmt.Sprintf("nobody looks whether the server still exists: Drover cannot list the servers of driver %s", r.kind.Driver)
		if clouds.Of(r.kind.Driver).Lists {
			message = "the cloud was not asked yet whether it lists the server: the manager asks at its --scan-interval"
		}
		s.conditions.Set(rkev1.ServerExistsCondition, metav1.ConditionUnknown, rkev1.ServerNotSeenReason, message)
	}
	return nil
}

// tellDelivery says what the Job has seen of the bootstrap data on the server. Earlier Jobs did not look.
func (s *scope) tellDelivery() {
	result := s.state.Result.Value
	if s.state.Result.Err != nil || result.Operation != state.Create || result.Delivery == nil {
		return
	}
	status, reason, message := metav1.ConditionUnknown, rkev1.NotVerifiedReason, result.Delivery.Message
	switch proven := result.Delivery.Proven; {
	case proven == nil:
	case *proven:
		status, reason = metav1.ConditionTrue, rkev1.DeliveredReason
	default:
		status, reason = metav1.ConditionFalse, rkev1.NotDeliveredReason
		message += fmt.Sprintf(". The server is kept for a look: drover ssh %s -- cloud-init status --long. Delete the machine to have another one made", s.GetName())
	}
	s.conditions.Set(rkev1.BootstrapDeliveredCondition, status, reason, message)
}
