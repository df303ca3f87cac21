package conformance

import (
	"context"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var color = regexp.MustCompile("\x1b\\[[0-9;]*m")

// checkDescription holds clusterctl's picture against what a user needs to see: each object of ours in its place, Ready, and
// nothing that clusterctl does not understand.
func checkDescription(ctx context.Context, namespace string) {
	GinkgoHelper()
	out, err := run(ctx, "", "clusterctl", "describe", "cluster", clusterName, "-n", namespace, "--grouping=false", "--show-templates", "--show-conditions=all")
	Expect(err).NotTo(HaveOccurred(), out)
	out = color.ReplaceAllString(out, "")
	AddReportEntry("clusterctl describe cluster", out)
	Expect(out).NotTo(ContainSubstring("Error"), out)
	Expect(out).NotTo(ContainSubstring("<none>"), out)
	for _, want := range []string{
		`(?m)^Cluster/conformance\s`,
		`ClusterInfrastructure - RKECluster/conformance\s+.*True`,
		`MachineDeployment/pool\s`,
		`DigitaloceanMachineTemplate/small`,
	} {
		Expect(out).To(MatchRegexp(want), out)
	}
	Expect(strings.Count(out, "MachineInfrastructure - DigitaloceanMachine/pool-")).To(Equal(replicas), out)
}
