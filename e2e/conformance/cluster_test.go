package conformance

import (
	"context"
	_ "embed"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/config"
	"sigs.k8s.io/cluster-api/test/framework"
)

// manifests are a cluster of two servers.
//
//go:embed testdata/cluster.yaml
var manifests string

const inventoryCRD = "customresourcedefinition/providers.clusterctl.cluster.x-k8s.io"

var _ = Describe("A cluster of ours", Ordered, func() {
	var (
		proxy     framework.ClusterProxy
		namespace string
		ours      cluster.GetOwnerGraphFilterFunction
	)

	BeforeAll(func(ctx context.Context) {
		proxy = newProxy()
		namespace = makeNamespace(ctx, proxy)
		ours = cluster.FilterClusterObjectsWithNameFilter(namespace)
		DeferCleanup(func(ctx context.Context) { kubectl(ctx, "", "delete", "namespace", namespace, "--wait=false") })
		borrowInventory(ctx)
	})

	It("is applied on the server's side", func(ctx context.Context) {
		first := kubectl(ctx, manifests, "-n", namespace, "apply", "--server-side", "-f", "-")
		Expect(strings.Count(first, "serverside-applied")).To(Equal(6), first)
	})

	It("runs", func(ctx context.Context) {
		Eventually(func(g Gomega) {
			for _, condition := range []string{"Ready", "BootstrapDelivered"} {
				statuses, err := run(ctx, "", "kubectl", "-n", namespace, "get", "digitaloceanmachines", "-o", "jsonpath={.items[*].status.conditions[?(@.type==\""+condition+"\")].status}")
				g.Expect(err).NotTo(HaveOccurred(), statuses)
				g.Expect(strings.Fields(statuses)).To(Equal([]string{"True", "True"}), "machines that are "+condition)
			}
		}).WithTimeout(runningLimit).WithPolling(time.Second).Should(Succeed())
	})

	It("is shown cleanly by clusterctl", func(ctx context.Context) { checkDescription(ctx, namespace) })

	It("rests when there is nothing to do", func(ctx context.Context) { checkRest(ctx, proxy, namespace, ours, "45s") })

	It("is applied again without a change", func(ctx context.Context) {
		const versions = "jsonpath={.items[*].metadata.resourceVersion}"
		before := kubectl(ctx, manifests, "-n", namespace, "get", "-f", "-", "-o", versions)
		kubectl(ctx, manifests, "-n", namespace, "apply", "--server-side", "-f", "-")
		Expect(kubectl(ctx, manifests, "-n", namespace, "get", "-f", "-", "-o", versions)).To(Equal(before))
	})

	It("gets its owners back", func(ctx context.Context) {
		framework.ValidateOwnerReferencesResilience(ctx, proxy, namespace, clusterName, ours, coreOwners, ourOwners)
	})

	It("gets owners of the right version", func(ctx context.Context) {
		framework.ValidateOwnerReferencesOnUpdate(ctx, proxy, namespace, clusterName, ours, coreOwners, ourOwners)
	})

	It("gets its finalizers back", func(ctx context.Context) {
		framework.ValidateFinalizersResilience(ctx, proxy, namespace, clusterName, ours, coreFinalizers, ourFinalizers)
	})

	It("rests again", func(ctx context.Context) { checkRest(ctx, proxy, namespace, ours, "10s") })

	It("goes and leaves nothing", func(ctx context.Context) {
		kubectl(ctx, "", "-n", namespace, "delete", "clusters.cluster.x-k8s.io", clusterName, "--timeout", goneLimit.String())
		left := kubectl(ctx, "", "-n", namespace, "get", "machines.cluster.x-k8s.io,digitaloceanmachines,digitaloceanmachinetemplates,rkeclusters,jobs,secrets", "-o", "name")
		Expect(strings.Fields(left)).To(ConsistOf("secret/bootstrap", "secret/credential"))
	})
})

// borrowInventory installs clusterctl's inventory of providers, which the validators ask, unless it is there.
func borrowInventory(ctx context.Context) {
	GinkgoHelper()
	if _, err := run(ctx, "", "kubectl", "get", inventoryCRD); err == nil {
		return
	}
	kubectl(ctx, string(config.ClusterctlAPIManifest), "apply", "--server-side", "-f", "-")
	DeferCleanup(func(ctx context.Context) { kubectl(ctx, "", "delete", inventoryCRD, "--ignore-not-found") })
	kubectl(ctx, "", "wait", inventoryCRD, "--for=condition=Established", "--timeout=3m")
}

// checkRest fails when anybody writes to an object of the cluster without a cause for the given time, once nobody did for 9 s.
func checkRest(ctx context.Context, proxy framework.ClusterProxy, namespace string, ours cluster.GetOwnerGraphFilterFunction, duration string) {
	GinkgoHelper()
	framework.ValidateResourceVersionStable(ctx, framework.ValidateResourceVersionStableInput{
		ClusterProxy: proxy, Namespace: namespace, OwnerGraphFilterFunction: ours,
		WaitToBecomeStable: []any{"2m", "3s"}, WaitToRemainStable: []any{duration, "3s"},
	})
}
