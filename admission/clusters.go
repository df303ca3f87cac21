package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/planner"
	"github.com/drover-project/drover/provisioning"
)

// ClustersPath is the path of the webhook Clusters.
const ClustersPath = "/validate-provisioning-cattle-io-v1-cluster"

// Clusters is the webhook for the specification of provisioning Clusters. It checks the parts that a
// schema cannot express: the configuration, as the webhook for RKEControlPlanes does, and names of
// labels. It warns of fields that have no effect. The renderer and the planner check again.
type Clusters struct{}

var _ admission.Handler = (*Clusters)(nil)

// Handle implements admission.Handler.
func (h *Clusters) Handle(_ context.Context, req admission.Request) admission.Response {
	obj, before := &provv1.Cluster{}, &provv1.Cluster{}
	if err := json.Unmarshal(req.Object.Raw, obj); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the Cluster: %w", err))
	}
	if len(req.OldObject.Raw) > 0 {
		if err := json.Unmarshal(req.OldObject.Raw, before); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the earlier Cluster: %w", err))
		}
	}
	if !obj.DeletionTimestamp.IsZero() {
		return admission.Allowed("")
	}
	if err := checkCluster(before, obj); err != nil {
		return admission.Denied(err.Error())
	}
	if fields := provisioning.NotActedOn(obj); len(fields) > 0 {
		return admission.Allowed("").WithWarnings("these fields of spec have no effect: " + strings.Join(fields, ", "))
	}
	return admission.Allowed("")
}

// checkCluster returns why a Cluster is rejected. Errors about the configuration name the fields
// below rkeConfig.
func checkCluster(before, after *provv1.Cluster) error {
	config := after.Spec.RKEConfig
	if config == nil {
		return nil
	}
	controlPlane := provisioning.ControlPlane(after)
	if err := planner.CheckSpec(&controlPlane.Spec); err != nil {
		return belowConfig(err)
	}
	if before.Spec.RKEConfig != nil && before.Annotations[provv1.RenderedAnnotation] == before.Name {
		if err := planner.CheckChange(&provisioning.ControlPlane(before).Spec, &controlPlane.Spec); err != nil {
			return belowConfig(err)
		}
	}
	for _, pool := range config.MachinePools {
		for field, names := range map[string]map[string]string{
			"labels": pool.Labels, "machineDeploymentLabels": pool.MachineDeploymentLabels, "machineDeploymentAnnotations": pool.MachineDeploymentAnnotations,
		} {
			for _, name := range slices.Sorted(maps.Keys(names)) {
				if provv1.IsReserved(name) {
					return fmt.Errorf("spec.rkeConfig.machinePools[%s].%s has %s: only Drover and Cluster API set names of cattle.io and cluster.x-k8s.io, so use another prefix", pool.Name, field, name)
				}
			}
		}
	}
	return nil
}

// belowConfig names the fields of an RKEControlPlane as a Cluster has them.
func belowConfig(err error) error {
	if rest, found := strings.CutPrefix(err.Error(), "spec."); found && !strings.HasPrefix(rest, "agentEnvVars") {
		return fmt.Errorf("spec.rkeConfig.%s", rest)
	}
	return err
}
