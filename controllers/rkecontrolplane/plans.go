package rkecontrolplane

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/plan"
)

// read are the keys of a plan Secret that the planner reads.
var read = []string{plan.KeyPlan, plan.KeyState, plan.KeyMaxFailures, plan.KeyFailureThreshold, plan.KeyAppliedChecksum, plan.KeyFailedChecksum,
	plan.KeyFailureCount, plan.KeyProbeStatuses, plan.KeyAgentStatus}

// NewPlans makes a cache of the plan Secrets with what the planner reads of them, and of no other Secret. Output of instructions, which may be
// long and hold secrets, is not kept.
func NewPlans(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	opts.ByObject = map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Field: fields.OneTermEqualSelector("type", plan.SecretType), Transform: keepRead},
	}
	made, err := cache.New(config, opts)
	if err != nil {
		return nil, fmt.Errorf("making the cache of plan Secrets: %w", err)
	}
	return made, nil
}

func keepRead(in any) (any, error) {
	secret, ok := in.(*corev1.Secret)
	if !ok {
		return in, nil
	}
	secret.ManagedFields = nil
	for key := range secret.Data {
		if !slices.Contains(read, key) {
			delete(secret.Data, key)
		}
	}
	return secret, nil
}
