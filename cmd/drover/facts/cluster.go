package facts

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
)

// DecodeCluster reads a provisioning Cluster as the API returned it. Incomplete conditions are
// accepted, because Rancher writes conditions without Kubernetes' required fields.
func DecodeCluster(object map[string]any) (*provv1.Cluster, error) {
	status, _ := object["status"].(map[string]any)
	if status != nil {
		object, status = maps.Clone(object), maps.Clone(status)
		object["status"] = status
	}
	conditions, _ := status["conditions"].([]any)
	delete(status, "conditions")
	c := &provv1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, c); err != nil {
		return nil, fmt.Errorf("decoding a Cluster of provisioning.cattle.io: %w", err)
	}
	c.Status.Conditions = decodeConditions(conditions)
	return c, nil
}
