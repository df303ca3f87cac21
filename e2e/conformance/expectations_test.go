package conformance

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/framework"
)

const machineFinalizer = "drover.cattle.io/machine"

type (
	owners     = map[string]func(types.NamespacedName, []metav1.OwnerReference) error
	finalizers = map[string]func(types.NamespacedName) []string
)

var (
	theCluster      = metav1.OwnerReference{Kind: "Cluster", APIVersion: clusterv1.GroupVersion.String()}
	theMachine      = metav1.OwnerReference{Kind: "Machine", APIVersion: clusterv1.GroupVersion.String(), Controller: new(true)}
	theInfraMachine = metav1.OwnerReference{Kind: "DigitaloceanMachine", APIVersion: "rke-machine.cattle.io/v1", Controller: new(true)}
)

// coreOwners are those of Cluster API's own kinds.
var coreOwners = framework.CoreOwnerReferenceAssertion

// ourOwners are those of our kinds, and of the Secrets in a cluster's namespace.
var ourOwners = owners{
	"RKECluster":                  exactly(theCluster),
	"DigitaloceanMachineTemplate": exactly(theCluster),
	"DigitaloceanMachine":         exactly(theMachine),
	"Secret": func(name types.NamespacedName, got []metav1.OwnerReference) error {
		if isKept(name) {
			return framework.HasExactOwners(got, theInfraMachine)
		}
		if name.Name == "credential" || name.Name == "bootstrap" {
			return framework.HasExactOwners(got)
		}
		return fmt.Errorf("the Secret %s should not be there any more", name.Name)
	},
}

func exactly(want ...metav1.OwnerReference) func(types.NamespacedName, []metav1.OwnerReference) error {
	return func(_ types.NamespacedName, got []metav1.OwnerReference) error {
		return framework.HasExactOwners(got, want...)
	}
}

// isKept reports whether a Secret is a machine's state or the credential of its last resort.
func isKept(name types.NamespacedName) bool {
	return strings.HasSuffix(name.Name, "-machine-state") || strings.HasSuffix(name.Name, "-machine-credential")
}

// coreFinalizers are those of Cluster API's own kinds.
var coreFinalizers = framework.CoreFinalizersAssertionWithLegacyClusters

// ourFinalizers are those of our kinds. Nothing else has any.
var ourFinalizers = finalizers{
	"DigitaloceanMachine": func(types.NamespacedName) []string { return []string{machineFinalizer} },
	"Secret": func(name types.NamespacedName) []string {
		if isKept(name) {
			return []string{machineFinalizer}
		}
		return nil
	},
}
