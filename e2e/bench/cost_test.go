package bench

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/machine"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
)

var update = flag.Bool("update", false, "write down what a machine costs now")

const (
	costFile = "testdata/cost.json"
	// costMachines are enough for what happens by chance to weigh little.
	costMachines = 30
	// costQuiet is how long nobody writes when so few have settled.
	costQuiet = 2 * time.Second
	// allowed is by how much a cost of ours may grow before somebody has to say yes with -update.
	allowed = 1.10
	// allowedAll is the same with Cluster API's part: how often it writes depends on how busy the machine is.
	allowedAll = 1.5
)

// cost is what one machine costs.
type cost struct {
	// Create and Remove are requests to the API server by verb and resource, per machine; "ours" sums those without Cluster
	// API's, "writes" the writes among these, "all" everything.
	Create, Remove map[string]float64
	// RestartWrites are ours when a manager takes over settled machines.
	RestartWrites float64
	// AllocationsPerReconcile are those of one look at a settled machine, with its requests.
	AllocationsPerReconcile float64
}

// TestCost fails when a machine costs more requests or memory than was written down.
func TestCost(t *testing.T) {
	now := measureCost(t)
	if *update {
		raw, err := json.MarshalIndent(now, "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(costFile, append(raw, '\n'), 0o600))
		return
	}
	raw, err := os.ReadFile(costFile)
	require.NoError(t, err)
	var before cost
	require.NoError(t, json.Unmarshal(raw, &before))
	for _, problem := range before.exceededBy(now) {
		t.Error(problem)
	}
	if t.Failed() {
		t.Log("if the growth is wanted, write it down: go test ./e2e/bench -run Cost -update")
	}
}

func measureCost(t *testing.T) cost {
	t.Helper()
	f := newFleet(t)
	var c cost
	f.settle(costQuiet)
	before := f.counter.look()
	f.pool("pool", costMachines)
	f.await(f.ready, costMachines)
	f.settle(costQuiet)
	c.Create = shares(f.counter.look().since(before), costMachines)

	f.manager.stop()
	c.AllocationsPerReconcile = f.allocations(t)
	before = f.counter.look()
	f.manager = startManager(t, f.config, f.namespace)
	f.settle(costQuiet)
	restart, _ := f.counter.look().since(before).ours().writes()
	c.RestartWrites = rounded(restart, costMachines)

	before = f.counter.look()
	f.scale("pool", 0)
	f.await(f.gone, costMachines)
	f.settle(costQuiet)
	c.Remove = shares(f.counter.look().since(before), costMachines)
	return c
}

// shares are per machine, to a tenth, without what does not happen for each, and with the sums.
func shares(counted requests, machines int) map[string]float64 {
	per := map[string]float64{"all": rounded(counted.sum(), machines), "ours": rounded(counted.ours().sum(), machines)}
	for key, n := range counted {
		if s := rounded(n, machines); s >= 0.5 {
			per[key] = s
		}
	}
	objects, _ := counted.ours().writes()
	per["writes"] = rounded(objects, machines)
	return per
}

func (r requests) sum() int {
	sum := 0
	for _, n := range r {
		sum += n
	}
	return sum
}

// ours leaves out what Cluster API's controllers, which run in the same process, ask for: what they apply to our objects, and
// their own objects. Events are of both.
func (r requests) ours() requests {
	mine := requests{}
	for key, n := range r {
		_, what, _ := strings.Cut(key, " ")
		resource, _, _ := strings.Cut(what, "/")
		resource, _, _ = strings.Cut(resource, " ")
		if !strings.Contains(key, " as capi-") && !slices.Contains(notOurs, resource) {
			mine[key] = n
		}
	}
	return mine
}

// notOurs are the resources that Cluster API alone writes, and events.
var notOurs = []string{"clusters", "machines", "machinesets", "machinedeployments", "events"}

func rounded(n, machines int) float64 { return math.Round(float64(n)/float64(machines)*10) / 10 }

// exceededBy says what costs more now.
func (c cost) exceededBy(now cost) []string {
	var problems []string
	compare := func(what string, factor, before, now float64) {
		if now > before*factor {
			problems = append(problems, fmt.Sprintf("%s: %.1f, and %.1f was written down", what, now, before))
		}
	}
	for sum, factor := range map[string]float64{"all": allowedAll, "ours": allowed, "writes": allowed} {
		compare("requests per machine from creation to Ready, "+sum+grown(c.Create, now.Create), factor, c.Create[sum], now.Create[sum])
		compare("requests per machine from Ready to gone, "+sum+grown(c.Remove, now.Remove), factor, c.Remove[sum], now.Remove[sum])
	}
	// A few objects that are there once are written at a start; they are shared by all machines.
	compare("our writes per machine after a restart", allowed, max(c.RestartWrites, 0.3), now.RestartWrites)
	compare("allocations per reconcile", allowed, c.AllocationsPerReconcile, now.AllocationsPerReconcile)
	slices.Sort(problems)
	return problems
}

// grown lists the requests that are more than they were.
func grown(before, now map[string]float64) string {
	var list []string
	for key, n := range now {
		if n > before[key] && strings.Contains(key, " ") {
			list = append(list, fmt.Sprintf("%s %.1f→%.1f", key, before[key], n))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}

// allocations are what one look at a settled machine takes, requests and all.
func (f *fleet) allocations(t *testing.T) float64 {
	t.Helper()
	kind := rkev1.MachineGroupVersion.WithKind(crdgen.KindsOf(driverName).Machine)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	require.NoError(t, f.client.List(t.Context(), list, client.InNamespace(f.namespace)))
	require.NotEmpty(t, list.Items)
	reconciler := machine.New(machine.Options{Client: f.client, Cache: f.client, Live: f.client, Recorder: &events.FakeRecorder{},
		Settings: jobrunner.Settings{Image: "drover.local/drover:test"},
	}).For(machine.Kind{GVK: kind, Driver: driverName, Fields: fields(t)})
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[0])}
	return math.Round(testing.AllocsPerRun(200, func() {
		_, err := reconciler.Reconcile(t.Context(), request)
		require.NoError(t, err)
	}))
}

// fields are those of the driver as it is predefined.
func fields(t *testing.T) []crdgen.Field {
	t.Helper()
	flags, ok := driver.Builtin(driverName)
	require.True(t, ok)
	for _, nd := range driver.Predefined() {
		if nd.DriverName() != driverName {
			continue
		}
		rules, err := crdgen.RulesFromAnnotations(nd.Annotations)
		require.NoError(t, err)
		all, err := crdgen.FieldsOf(driverName, flags, rules)
		require.NoError(t, err)
		return all
	}
	t.Fatal("the driver is not predefined")
	return nil
}

// TestCost_exceeded proves that growth is found, and named.
func TestCost_exceeded(t *testing.T) {
	before := cost{Create: map[string]float64{"all": 60, "ours": 40, "writes": 20, "get secrets": 10},
		Remove: map[string]float64{"all": 60, "ours": 40, "writes": 20}, AllocationsPerReconcile: 1000}
	same := before
	require.Empty(t, before.exceededBy(same))

	more := before
	more.Create = map[string]float64{"all": 85, "ours": 45, "writes": 20, "get secrets": 15}
	more.RestartWrites, more.AllocationsPerReconcile = 1, 1101
	require.Equal(t, []string{
		"allocations per reconcile: 1101.0, and 1000.0 was written down",
		"our writes per machine after a restart: 1.0, and 0.3 was written down",
		"requests per machine from creation to Ready, ours (get secrets 10.0→15.0): 45.0, and 40.0 was written down",
	}, before.exceededBy(more))
	more.Create["all"] = 91
	require.Len(t, before.exceededBy(more), 4)
}

func TestShare(t *testing.T) {
	require.Equal(t, map[string]float64{"get secrets": 2, "patch machines": 1, "patch jobs": 1, "all": 6.3, "ours": 3, "writes": 1,
		"patch digitaloceanmachines as capi-machineset": 2},
		shares(requests{"get secrets": 2 * costMachines, "patch machines": costMachines, "create events": 3, "patch clusters/status": costMachines / 5,
			"patch jobs": costMachines, "patch digitaloceanmachines as capi-machineset": 2 * costMachines}, costMachines))
}
