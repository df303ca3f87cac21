package node

import (
	"encoding/json"
	"fmt"
)

// writeCNI stores the pod network's configuration; containerd sees the file
// appear. Each pod has a point-to-point link to the host and all its traffic is
// routed, also between pods of one node: so no bridge is left behind, service
// addresses work without bridge netfilter, and nothing is masqueraded.
func (n *Node) writeCNI(podCIDR string) error {
	raw, err := json.MarshalIndent(map[string]any{
		"cniVersion": "1.0.0",
		"name":       "localkube",
		"plugins": []any{map[string]any{
			"type":   "ptp",
			"ipMasq": false,
			"ipam": map[string]any{
				"type":    "host-local",
				"dataDir": n.dir.Path("cni", "addresses"),
				"ranges":  []any{[]any{map[string]string{"subnet": podCIDR}}},
				"routes":  []any{map[string]string{"dst": "0.0.0.0/0"}},
			},
		}},
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding pod network: %w", err)
	}
	return n.dir.Write(raw, "cni", "conf", "10-localkube.conflist")
}
