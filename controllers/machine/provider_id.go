package machine

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi/workload"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/sshkeys"
)

// findProviderID sets spec.providerID: what the user gave stays; else what the driver's record says; else what the Node has
// that the server became.
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
	provisioned := true
	s.status.Initialization.Provisioned = &provisioned
	return nil
}

func (r *Reconciler) providerID(ctx context.Context, s *scope) (string, error) {
	server, err := s.state.Server.Value, s.state.Server.Err
	if err != nil {
		return "", fmt.Errorf("reading the server: %w", err)
	}
	if server.ProviderID != "" {
		return server.ProviderID, nil
	}
	if id, err := r.recordedProviderID(ctx, s); err != nil || id != "" {
		return id, err
	}
	wait := step.Wait(rkev1.WaitingForNodeReason,
		"the driver's record does not tell the provider ID: it is taken from the Node when the server has joined its cluster (found by its addresses or name), or set spec.providerID", safetyNet)
	if r.Nodes == nil || s.machine == nil || s.cluster == nil {
		return "", wait
	}
	r.watchIndex.note(s.request, nodeKey(client.ObjectKeyFromObject(s.cluster), s.machine.UID))
	r.watchIndex.note(s.request, nodeKey(client.ObjectKeyFromObject(s.cluster), ""))
	addresses := make([]string, len(server.Addresses))
	for i, address := range server.Addresses {
		addresses[i] = address.Address
	}
	id, err := r.Nodes.ProviderID(ctx, client.ObjectKeyFromObject(s.cluster), workload.Server{Machine: s.machine.UID, Name: s.state.InstanceName,
		Addresses: addresses, ProviderID: fmt.Sprintf("drover://%s/%s", s.GetNamespace(), s.GetName())})
	if err != nil {
		return "", fmt.Errorf("looking for the machine's Node: %w", err)
	}
	if id == "" {
		return "", wait
	}
	return id, nil
}

// recordedProviderID is what the driver's record in the state says by what is known of the driver now: a template may have been
// added to the NodeDriver after the server was made. A change of the NodeDriver wakes the machine.
func (r *Reconciler) recordedProviderID(ctx context.Context, s *scope) (string, error) {
	found, err := r.nodeDriver(ctx, s)
	if err != nil || found == nil {
		return "", err
	}
	cloud, template := clouds.Of(found.DriverName()), found.Spec.ProviderIDTemplate
	if template == "" && cloud.ProviderID == "" {
		return "", nil
	}
	record, err := sshkeys.Record(s.state.ExtractedConfig)
	if err != nil || record == nil {
		return "", nil //nolint:nilerr // a record that cannot be read says nothing; the Node may
	}
	return cloud.Server(clouds.Facts{Record: record, Template: template}).ProviderID, nil
}
