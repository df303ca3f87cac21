package listing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/cmd/drover/listing"
	"github.com/drover-project/drover/testkit/golden"
)

func clusters() []*provv1.Cluster {
	cluster := func(namespace, name string, minutes int, texts ...string) *provv1.Cluster {
		c := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 2,
			CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(minutes) * time.Minute))}}
		c.Spec.KubernetesVersion = "v1.36.3+k3s1"
		c.Status.ObservedGeneration, c.Status.Conditions = 2, conditions(texts...)
		return c
	}
	ready := cluster("shop", "store", 90, "Ready=True/Ready/", "Updated=True/Updated/")
	ready.Status.Pools = []provv1.PoolStatus{{Name: "server", Wanted: 1, Made: 1, Ready: 1, UpToDate: 1}, {Name: "worker", Wanted: 3, Made: 3, Ready: 3, UpToDate: 3}}
	ready.Status.ClusterName, ready.Status.ClientSecretName = "c-m-12345678", "store-kubeconfig"
	waits := cluster("shop", "a", 12, "Ready=False/WaitingForMachines/pool worker: 0 of 2 machines are ready\n* See the machines: kubectl get machines", "Updated=True/Updated/")
	waits.Status.Pools = []provv1.PoolStatus{{Name: "worker", Wanted: 2, Made: 1}}
	held := cluster("other", "held", 2000, "Ready=True/Ready/", "Updated=False/PoolHoldsEtcd/pool server: it holds the data")
	edited := cluster("shop", "edited", 5, "Ready=True/Ready/", "Updated=True/Updated/")
	edited.Generation = 3
	paused := cluster("shop", "paused", 5, "Ready=True/Ready/", "Updated=True/Updated/", "Paused=True/Paused/")
	going := cluster("shop", "going", 5, "Ready=False/Deleting/the machines of the cluster are being deleted")
	going.DeletionTimestamp = &metav1.Time{Time: now}
	bare := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "imported\tand\nbroken", Generation: 1}}
	return []*provv1.Cluster{ready, waits, held, edited, paused, going, bare}
}

func TestClusters(t *testing.T) {
	list := listing.NewClusterList(clusters())
	golden.Require(t, "testdata/clusters.txt", render(t, listing.ClusterTable(list.Items, false, now), false))
	golden.Require(t, "testdata/clusters-wide-all.txt", render(t, listing.ClusterTable(list.Items, true, now), true))
	golden.Require(t, "testdata/clusters.json", document(t, list))
	require.JSONEq(t, `{"apiVersion":"cli.drover.cattle.io/v1","kind":"ClusterList","items":[]}`, document(t, listing.NewClusterList(nil)))
}
