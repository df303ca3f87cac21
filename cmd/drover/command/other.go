package command

import (
	"fmt"
	"strings"

	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// otherKinds maps the words that may precede a name to kinds other than machines.
var otherKinds = map[string]string{
	"cluster": "Cluster", "clusters": "Cluster", "cl": "Cluster", "cluster.cluster.x-k8s.io": "Cluster", "clusters.cluster.x-k8s.io": "Cluster",
	listing.ClusterRef: "Cluster", "clusters.provisioning.cattle.io": "Cluster",
	"rkecontrolplane": "RKEControlPlane", "rkecontrolplanes": "RKEControlPlane", "rcp": "RKEControlPlane",
	"rkecontrolplane.rke.cattle.io": "RKEControlPlane", "rkecontrolplanes.rke.cattle.io": "RKEControlPlane",
	"driver": "NodeDriver", "drivers": "NodeDriver", "nodedriver": "NodeDriver", "nodedrivers": "NodeDriver", "nd": "NodeDriver",
	"nodedriver.management.cattle.io": "NodeDriver", "nodedrivers.management.cattle.io": "NodeDriver",
	"md": "MachineDeployment", "machinedeployment": "MachineDeployment", "machinedeployments": "MachineDeployment",
	"machinedeployment.cluster.x-k8s.io": "MachineDeployment",
	"ms":                                 "MachineSet", "machineset": "MachineSet", "machinesets": "MachineSet", "machineset.cluster.x-k8s.io": "MachineSet",
}

// otherCommands are the word with which drover why takes an object of another kind, and its
// resource in kubectl.
var otherCommands = map[string]struct{ word, resource string }{
	"Cluster":           {"cluster", "clusters.cluster.x-k8s.io"},
	"RKEControlPlane":   {"rkecontrolplane", "rkecontrolplanes.rke.cattle.io"},
	"NodeDriver":        {"driver", "nodedrivers.management.cattle.io"},
	"MachineDeployment": {"md", "machinedeployments.cluster.x-k8s.io"},
	"MachineSet":        {"ms", "machinesets.cluster.x-k8s.io"},
}

// insteadOf names the commands for an object that is not a machine, as an addition to an error.
// asked is KIND or KIND/NAME; the text is empty for any other word.
func (e *env) insteadOf(asked, namespace string) string {
	word, name, named := strings.Cut(asked, "/")
	kind := otherKinds[strings.ToLower(word)]
	if kind == "" {
		return ""
	}
	if !named {
		name = "NAME"
	}
	use := otherCommands[kind]
	text := fmt.Sprintf("; use '%s why %s -n %s' or 'kubectl get %s -n %s'", e.Name, facts.Word(use.word+"/"+name), namespace, use.resource, namespace)
	if kind == "Cluster" {
		text += fmt.Sprintf(", and for its machines '%s get -n %s -l cluster.x-k8s.io/cluster-name=%s'", e.Name, namespace, facts.Word(name))
	}
	return text
}
