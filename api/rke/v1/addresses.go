package v1

import (
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MachineAddresses are the addresses of a CAPI Machine's server from outside of the servers' own network and within it: what Cluster API has copied from its
// infra machine, whosever that is, and in their place, of either kind by itself, what an annotation gives.
func MachineAddresses(machine *clusterv1.Machine) (external, internal []string) {
	for _, address := range machine.Status.Addresses {
		switch address.Type {
		case clusterv1.MachineExternalIP:
			external = append(external, address.Address)
		case clusterv1.MachineInternalIP:
			internal = append(internal, address.Address)
		default: // names are looked up by somebody else
		}
	}
	if given := listed(machine.Annotations[AddressAnnotation]); len(given) > 0 {
		external = given
	}
	if given := listed(machine.Annotations[InternalAddressAnnotation]); len(given) > 0 {
		internal = given
	}
	return external, internal
}

func listed(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}
