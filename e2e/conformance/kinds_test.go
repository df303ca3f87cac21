package conformance

import (
	"context"
	"fmt"
	"slices"
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

// servedKinds are those of the built-in drivers: others come and go with the stories beside this.
func servedKinds(ctx context.Context) []servedKind {
	GinkgoHelper()
	drivers := strings.Fields(kubectl(ctx, "", "get", "nodedrivers", "-o", "jsonpath={.items[?(@.spec.builtin==true)].metadata.name}"))
	const columns = "jsonpath={range .items[*]}{.metadata.labels.io\\.cattle\\.node_driver\\.name} {.metadata.name} {.spec.group}/{.spec.versions[0].name} {.spec.names.kind}{\"\\n\"}{end}"
	var kinds []servedKind
	for line := range strings.Lines(kubectl(ctx, "", "get", "crds", "-l", "io.cattle.node_driver.name", "-o", columns)) {
		fields := strings.Fields(line)
		Expect(fields).To(HaveLen(4), line)
		if slices.Contains(drivers, fields[0]) {
			kinds = append(kinds, servedKind{resource: fields[1], version: fields[2], name: fields[3]})
		}
	}
	return kinds
}
