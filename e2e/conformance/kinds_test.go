package conformance

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("Every served kind of a driver", func() {
	It("is explained and takes server-side apply", func(ctx context.Context) {
		namespace := makeNamespace(ctx, newProxy())
		DeferCleanup(func(ctx context.Context) { kubectl(ctx, "", "delete", "namespace", namespace, "--wait=false") })
		kinds := servedKinds(ctx)
		Expect(len(kinds)).To(BeNumerically(">=", 9), "three kinds for each of at least three drivers: %v", kinds)
		for _, kind := range kinds {
			explained := kubectl(ctx, "", "explain", kind.resource, "--recursive")
			Expect(explained).To(ContainSubstring("KIND:       "+kind.name), explained)
			Expect(explained).To(ContainSubstring("FIELDS:"), explained)
			manifest := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: empty}\n", kind.version, kind.name)
			switch {
			case strings.HasSuffix(kind.name, "Template"):
				manifest += "spec: {clusterName: nobody, template: {spec: {}}}\n"
			case strings.HasSuffix(kind.name, "Machine"):
				manifest += "spec: {}\n"
			}
			applied := kubectl(ctx, manifest, "-n", namespace, "apply", "--server-side", "--dry-run=server", "-f", "-")
			Expect(applied).To(ContainSubstring("serverside-applied (server dry run)"), kind.name)
		}
	})
})

type servedKind struct{ resource, version, name string }

// servedKinds are those of the groups that drivers' kinds are in.
func servedKinds(ctx context.Context) []servedKind {
	GinkgoHelper()
	var kinds []servedKind
	for _, group := range []string{"rke-machine.cattle.io", "rke-machine-config.cattle.io"} {
		out := kubectl(ctx, "", "api-resources", "--api-group="+group, "--no-headers", "--sort-by=name")
		for line := range strings.Lines(out) {
			// Short names are optional: version, whether namespaced, and kind are the last three.
			fields := strings.Fields(line)
			last := len(fields) - 1
			kinds = append(kinds, servedKind{resource: fields[0] + "." + group, version: fields[last-2], name: fields[last]})
		}
	}
	return kinds
}
