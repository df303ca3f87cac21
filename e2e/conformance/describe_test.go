package conformance

import (
	"context"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var color = regexp.MustCompile("\x1b\\[[0-9;]*m")

// checkDescription holds clusterctl's picture against what a user needs to see: each object of ours in its place, with its
// conditions, all of them as they should be.
func checkDescription(ctx context.Context, namespace string) {
	GinkgoHelper()
	short := describe(ctx, namespace)
	Expect(short).To(MatchRegexp(`(?m)^Cluster %s/conformance\s`, namespace), short)
	Expect(short).To(MatchRegexp(`MachineDeployment %s/pool,\s+2/2`, namespace), short)

	all := describe(ctx, namespace, "--grouping=false", "--show-templates", "--show-conditions=all", "--echo")
	AddReportEntry("clusterctl describe cluster", all)
	Expect(all).To(MatchRegexp(`DigitaloceanMachineTemplate %s/small`, namespace), all)
	Expect(conditionsBelow(all, "RKECluster "+namespace+"/conformance")).To(Equal(map[string]string{"Paused": "False", "Ready": "True"}), all)
	machines := regexp.MustCompile(`DigitaloceanMachine `+namespace+`/pool-\S+`).FindAllString(all, -1)
	Expect(machines).To(HaveLen(replicas), all)
	for _, machine := range machines {
		Expect(conditionsBelow(all, machine)).To(Equal(map[string]string{
			"Paused": "False", "ClusterReady": "True", "DriverReady": "True", "BootstrapReady": "True", "CredentialReady": "True",
			"CreateJob": "True", "StateStored": "True", "ProviderIDKnown": "True", "Ready": "True",
			"BootstrapDelivered": "True", "ServerExists": "Unknown", // nobody has scanned the account yet
		}), all)
	}
}

func describe(ctx context.Context, namespace string, flags ...string) string {
	GinkgoHelper()
	out, err := run(ctx, "", "clusterctl", append([]string{"describe", "cluster", clusterName, "-n", namespace}, flags...)...)
	Expect(err).NotTo(HaveOccurred(), out)
	return color.ReplaceAllString(out, "")
}

var condition = regexp.MustCompile(`^[ │]*[├└]─(\w+)\s+(True|False|Unknown)\s`)

// conditionsBelow are type and status of the conditions in the lines that follow an object's.
func conditionsBelow(out, object string) map[string]string {
	found := map[string]string{}
	_, after, _ := strings.Cut(out, object)
	_, after, _ = strings.Cut(after, "\n")
	for line := range strings.Lines(after) {
		parts := condition.FindStringSubmatch(line)
		if parts == nil {
			break
		}
		found[parts[1]] = parts[2]
	}
	return found
}
