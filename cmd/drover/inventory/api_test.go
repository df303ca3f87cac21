package inventory_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
)

func TestKinds(t *testing.T) {
	w := newWorld(t)
	kinds, err := w.Kinds(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"DigitaloceanMachine", "GenericMachine"}, []string{kinds[0].Name, kinds[1].Name}, "no templates, in order")
	require.Len(t, kinds, 2)
	require.Equal(t, "digitaloceanmachines", kinds[0].Resource)
	require.Equal(t, "digitaloceanmachine", kinds[0].Singular)
	require.Equal(t, schema.GroupVersionResource{Group: "rke-machine.cattle.io", Version: "v1", Resource: "genericmachines"}, inventory.ResourceOf(kinds[1]))

	none := w.through(t, func(out http.ResponseWriter, _ *http.Request) bool { return notFound(out) })
	kinds, err = none.Kinds(t.Context())
	require.NoError(t, err, "no driver is active")
	require.Empty(t, kinds)
	ill := w.through(t, func(out http.ResponseWriter, _ *http.Request) bool { return answer(out, failure) })
	_, err = ill.Kinds(t.Context())
	require.EqualError(t, err, "asking the API for machine kinds: etcd is ill")
}

// TestKindsEndWithTheirContext: a completion must not wait for a server that is silent.
func TestKindsEndWithTheirContext(t *testing.T) {
	w := newWorld(t)
	asked := make(chan struct{})
	silent := w.through(t, func(_ http.ResponseWriter, r *http.Request) bool {
		close(asked)
		<-r.Context().Done()
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	_, err := silent.Kinds(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "asking the API for machine kinds: interrupted", inventory.Plain(err))
}

func TestMachines(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	w.machine(t, "DigitaloceanMachine", "a", `, labels: {pool: blue}`)
	w.machine(t, "GenericMachine", "b", `, labels: {pool: blue}`)
	w.machine(t, "GenericMachine", "c", "")
	other.machine(t, "GenericMachine", "d", `, labels: {pool: blue-`+other.namespace+`}`)
	both := []facts.Kind{digitalocean, generic}
	for name, c := range map[string]struct {
		kinds   []facts.Kind
		options inventory.ListOptions
		want    []string
	}{
		"of all kinds":         {both, inventory.ListOptions{Namespace: w.namespace}, []string{"DigitaloceanMachine/a", "GenericMachine/b", "GenericMachine/c"}},
		"of one kind":          {both[1:], inventory.ListOptions{Namespace: w.namespace}, []string{"GenericMachine/b", "GenericMachine/c"}},
		"of no kind":           {nil, inventory.ListOptions{Namespace: w.namespace}, nil},
		"with a label":         {both, inventory.ListOptions{Namespace: w.namespace, Selector: "pool=blue"}, []string{"DigitaloceanMachine/a", "GenericMachine/b"}},
		"without a label":      {both, inventory.ListOptions{Namespace: w.namespace, Selector: "!pool"}, []string{"GenericMachine/c"}},
		"in all namespaces":    {both, inventory.ListOptions{Selector: "pool=blue-" + other.namespace}, []string{"GenericMachine/d"}},
		"in a namespace of no": {both, inventory.ListOptions{Namespace: "no-such-namespace"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			machines, denied, err := w.Machines(t.Context(), c.kinds, c.options)
			require.NoError(t, err)
			require.Empty(t, denied)
			require.Equal(t, c.want, names(machines))
		})
	}
}

// TestMachinesInPages: a list that the server hands out in pages is complete, and a page that expired is asked for anew.
func TestMachinesInPages(t *testing.T) {
	w := newWorld(t)
	for i := range 7 {
		w.machine(t, "GenericMachine", fmt.Sprint("m", i), "")
	}
	var pages []string
	expire := false
	paged := w.through(t, func(out http.ResponseWriter, r *http.Request) bool {
		query := r.URL.Query()
		if query.Get("limit") == "" {
			return false
		}
		pages = append(pages, query.Get("limit"))
		if expire && query.Get("continue") != "" {
			return answer(out, metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "too old"})
		}
		query.Set("limit", "3")
		r.URL.RawQuery = query.Encode()
		return false
	})
	want := []string{"GenericMachine/m0", "GenericMachine/m1", "GenericMachine/m2", "GenericMachine/m3", "GenericMachine/m4", "GenericMachine/m5", "GenericMachine/m6"}
	machines, _, err := paged.Machines(t.Context(), []facts.Kind{generic}, inventory.ListOptions{Namespace: w.namespace})
	require.NoError(t, err)
	require.Equal(t, want, names(machines))
	require.Equal(t, []string{"500", "500", "500"}, pages)
	expire = true
	_, _, err = paged.Machines(t.Context(), []facts.Kind{generic}, inventory.ListOptions{Namespace: w.namespace})
	require.EqualError(t, err, "listing genericmachines: too old")
}

func TestMachinesDenied(t *testing.T) {
	w := newWorld(t)
	w.machine(t, "GenericMachine", "b", "")
	options := inventory.ListOptions{Namespace: w.namespace}
	kinds := []facts.Kind{digitalocean, generic}
	some := w.as(t, "reader", may("rke-machine.cattle.io", []string{"genericmachines"}, []string{"list"}))
	machines, denied, err := some.Machines(t.Context(), kinds, options)
	require.NoError(t, err)
	require.Equal(t, []string{"GenericMachine/b"}, names(machines))
	require.Equal(t, []string{"digitaloceanmachines"}, denied)

	_, _, err = some.Machines(t.Context(), kinds, inventory.ListOptions{})
	require.Equal(t, "listing machines: you may not list: digitaloceanmachines, genericmachines (rke-machine.cattle.io) in the whole cluster (ask your administrator for access)", inventory.Plain(err))
	require.True(t, apierrors.IsForbidden(err))

	// One kind that fails is not hidden behind another that is denied.
	ill := w.through(t, func(out http.ResponseWriter, r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/genericmachines") && answer(out, failure)
	})
	_, _, err = ill.Machines(t.Context(), kinds, options)
	require.EqualError(t, err, "listing genericmachines: etcd is ill")
}

// TestKindGoesMeanwhile: a driver that is deactivated between discovery and list is no error.
func TestKindGoesMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.machine(t, "GenericMachine", "b", "")
	gone := facts.Kind{Name: "GoneMachine", Resource: "gonemachines", Singular: "gonemachine"}
	machines, denied, err := w.Machines(t.Context(), []facts.Kind{gone, generic}, inventory.ListOptions{Namespace: w.namespace})
	require.NoError(t, err)
	require.Empty(t, denied)
	require.Equal(t, []string{"GenericMachine/b"}, names(machines))
	m, err := w.Machine(t.Context(), gone, w.namespace, "b")
	require.NoError(t, err)
	require.Nil(t, m)
}

func TestMachine(t *testing.T) {
	w := newWorld(t)
	made := w.machine(t, "GenericMachine", "b", `, labels: {pool: blue}`)
	m, err := w.Machine(t.Context(), generic, w.namespace, "b")
	require.NoError(t, err)
	require.Equal(t, made.UID, m.UID)
	require.Equal(t, map[string]string{"pool": "blue"}, m.Labels)
	m, err = w.Machine(t.Context(), digitalocean, w.namespace, "b")
	require.NoError(t, err)
	require.Nil(t, m)
	_, err = w.as(t, "nobody").Machine(t.Context(), generic, w.namespace, "b")
	require.Equal(t, "getting genericmachines "+w.namespace+`/b: genericmachines.rke-machine.cattle.io "b" is forbidden: User "nobody" cannot get resource "genericmachines" in API group "rke-machine.cattle.io" in the namespace "`+w.namespace+`"`,
		inventory.Plain(err))
}

// drivers are three NodeDrivers whose names are unlike those of other tests.
func (w *world) drivers(t *testing.T) {
	t.Helper()
	for _, manifest := range []string{
		`{apiVersion: management.cattle.io/v3, kind: NodeDriver, metadata: {name: inv-old}, spec: {displayName: inventorycloud, url: "https://d.example/1", active: false}}`,
		`{apiVersion: management.cattle.io/v3, kind: NodeDriver, metadata: {name: inv-new}, spec: {displayName: inventorycloud, url: "https://d.example/2", active: true, insecureSkipChecksum: true}, status: {machineKind: InventorycloudMachine}}`,
		`{apiVersion: management.cattle.io/v3, kind: NodeDriver, metadata: {name: inventorycloud-2}, spec: {url: "https://d.example/3", active: false}}`,
	} {
		w.apply(t, manifest)
	}
}

func TestDrivers(t *testing.T) {
	w := newWorld(t)
	w.drivers(t)
	drivers, err := w.Drivers(t.Context())
	require.NoError(t, err)
	ours := slices.DeleteFunc(drivers, func(d v3.NodeDriver) bool { return !strings.HasPrefix(d.Spec.URL, "https://d.example/") })
	require.Len(t, ours, 3)
	require.Equal(t, "InventorycloudMachine", ours[0].Status.MachineKind)
	require.Equal(t, "inv-new", facts.DriverNamed("InventoryCloud", drivers).Name)

	_, err = w.as(t, "stranger").Drivers(t.Context())
	require.Equal(t, `listing nodedrivers: nodedrivers.management.cattle.io is forbidden: User "stranger" cannot list resource "nodedrivers" in API group "management.cattle.io" at the cluster scope`, inventory.Plain(err))
	bare := w.through(t, func(out http.ResponseWriter, r *http.Request) bool { return notFound(out) })
	_, err = bare.Drivers(t.Context())
	require.EqualError(t, err, "this cluster has no NodeDriver kind: Drover is not installed here, or the kubeconfig's context is another cluster's")
}

// TestOddObjects: what a server should never hold is an error with its place, and no panic.
func TestOddObjects(t *testing.T) {
	w := newWorld(t)
	odd := w.through(t, func(out http.ResponseWriter, r *http.Request) bool {
		body := ""
		switch {
		case strings.HasSuffix(r.URL.Path, "/genericmachines"):
			body = `{"apiVersion":"rke-machine.cattle.io/v1","kind":"GenericMachineList","metadata":{},"items":[{"apiVersion":"rke-machine.cattle.io/v1","kind":"GenericMachine","metadata":{"name":"b"},"status":{"addresses":7}}]}`
		case strings.HasSuffix(r.URL.Path, "/nodedrivers"):
			body = `{"apiVersion":"management.cattle.io/v3","kind":"NodeDriverList","metadata":{},"items":[{"apiVersion":"management.cattle.io/v3","kind":"NodeDriver","metadata":{"name":"x"},"spec":"y"}]}`
		default:
			return false
		}
		out.Header().Set("Content-Type", "application/json")
		_, _ = out.Write([]byte(body))
		return true
	})
	_, _, err := odd.Machines(t.Context(), []facts.Kind{generic}, inventory.ListOptions{Namespace: w.namespace})
	require.ErrorContains(t, err, "listing genericmachines: decoding a GenericMachine: ")
	_, err = odd.Drivers(t.Context())
	require.ErrorContains(t, err, "decoding NodeDriver x: ")
}
