package inventory_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/cmd/drover/inventory"
)

// resolveWorld has the machines that names are tried on:
//
//	web-1     a DigitaloceanMachine of CAPI Machine pool-a
//	db-1      a GenericMachine by itself
//	twin      a machine of both kinds
//	web       an infra machine, and a CAPI Machine whose machine is another one
//	lonely    a CAPI Machine whose infra machine is missing
//	foreign   a CAPI Machine of another provider
//	left      the label of two machines whose CAPI Machine is gone
func resolveWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.machine(t, "DigitaloceanMachine", "web-1", `, labels: {rke.cattle.io/capi-machine-name: pool-a}`)
	w.capiMachine(t, "pool-a", "DigitaloceanMachine", "web-1", "")
	w.machine(t, "GenericMachine", "db-1", "")
	w.machine(t, "DigitaloceanMachine", "twin", "")
	w.machine(t, "GenericMachine", "twin", "")
	w.machine(t, "GenericMachine", "web", "")
	w.machine(t, "GenericMachine", "web-infra", "")
	w.capiMachine(t, "web", "GenericMachine", "web-infra", "")
	w.capiMachine(t, "lonely", "GenericMachine", "nobody", "")
	foreign := "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata: {name: foreign}\nspec:\n  clusterName: store\n" +
		"  bootstrap: {dataSecretName: boot}\n  infrastructureRef: {apiGroup: infrastructure.example, kind: CarMachine, name: car}\n"
	w.apply(t, foreign)
	w.machine(t, "GenericMachine", "left-1", `, labels: {rke.cattle.io/capi-machine-name: left}`)
	w.machine(t, "GenericMachine", "left-2", `, labels: {rke.cattle.io/capi-machine-name: left}`)
	w.machine(t, "GenericMachine", "orphan-1", `, labels: {rke.cattle.io/capi-machine-name: orphan}`)
	return w
}

func TestResolve(t *testing.T) {
	w := resolveWorld(t)
	for ref, want := range map[string]struct{ machine, capi, missing string }{
		"web-1":                            {machine: "DigitaloceanMachine/web-1", capi: "pool-a"},
		"pool-a":                           {machine: "DigitaloceanMachine/web-1", capi: "pool-a"},
		"machine/pool-a":                   {machine: "DigitaloceanMachine/web-1", capi: "pool-a"},
		"Machines.cluster.x-k8s.io/pool-a": {machine: "DigitaloceanMachine/web-1", capi: "pool-a"},
		"digitaloceanmachine/web-1":        {machine: "DigitaloceanMachine/web-1", capi: "pool-a"},
		"DigitaloceanMachine/web-1":        {machine: "DigitaloceanMachine/web-1", capi: "pool-a"},
		"db-1":                             {machine: "GenericMachine/db-1"},
		"genericmachine.rke-machine.cattle.io/db-1": {machine: "GenericMachine/db-1"},
		"genericmachine/twin":                       {machine: "GenericMachine/twin"},
		"digitaloceanmachines/twin":                 {machine: "DigitaloceanMachine/twin"},
		"genericmachine/web":                        {machine: "GenericMachine/web"},
		"machine/web":                               {machine: "GenericMachine/web-infra", capi: "web"},
		"web-infra":                                 {machine: "GenericMachine/web-infra", capi: "web"},
		"lonely":                                    {capi: "lonely", missing: "GenericMachine"},
		"foreign":                                   {capi: "foreign", missing: "CarMachine"},
		"orphan":                                    {machine: "GenericMachine/orphan-1"},
		"ma/orphan":                                 {machine: "GenericMachine/orphan-1"},
	} {
		t.Run(strings.ReplaceAll(ref, "/", " "), func(t *testing.T) {
			target, err := w.Resolve(t.Context(), w.namespace, ref)
			require.NoError(t, err)
			got := struct{ machine, capi, missing string }{missing: target.MissingKind}
			if target.Machine != nil {
				got.machine = target.Machine.Kind.Name + "/" + target.Machine.Name
			}
			if target.CAPIMachine != nil {
				got.capi = target.CAPIMachine.Name
			}
			require.Equal(t, want, got)
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	w := resolveWorld(t)
	for ref, want := range map[string]string{
		"twin": `"twin" may be any of digitaloceanmachine.rke-machine.cattle.io/twin, genericmachine.rke-machine.cattle.io/twin; say which by writing it in full`,
		"web":  `"web" may be any of genericmachine.rke-machine.cattle.io/web, genericmachine.rke-machine.cattle.io/web-infra; say which by writing it in full`,
		"left": `"left" may be any of genericmachine.rke-machine.cattle.io/left-1, genericmachine.rke-machine.cattle.io/left-2; say which by writing it in full`,
		"ma/left": `"ma/left" may be any of genericmachine.rke-machine.cattle.io/left-1, genericmachine.rke-machine.cattle.io/left-2; ` +
			`say which by writing it in full`,
		"nothing":                     `no machine "nothing" in namespace "` + w.namespace + `" (see 'drover get -A')`,
		"WEB-1":                       `no machine "WEB-1" in namespace "` + w.namespace + `" (see 'drover get -A')`,
		"web 1":                       `no machine "web 1" in namespace "` + w.namespace + `" (see 'drover get -A')`,
		"genericmachine/web-1":        `no machine "genericmachine/web-1" in namespace "` + w.namespace + `"; the name belongs to digitaloceanmachine.rke-machine.cattle.io/web-1`,
		"machine/web-1":               `no machine "machine/web-1" in namespace "` + w.namespace + `"; the name belongs to digitaloceanmachine.rke-machine.cattle.io/web-1`,
		"genericmachine/pool-a":       `no machine "genericmachine/pool-a" in namespace "` + w.namespace + `"; the name belongs to machine.cluster.x-k8s.io/pool-a`,
		"digitaloceanmachine/nobody":  `no machine "digitaloceanmachine/nobody" in namespace "` + w.namespace + `" (see 'drover get -A')`,
		"car/web-1":                   `no kind of machines is called "car"; this cluster has machine, digitaloceanmachine, genericmachine`,
		"/web-1":                      `no kind of machines is called ""; this cluster has machine, digitaloceanmachine, genericmachine`,
		"machine.example/web-1":       `no kind of machines is called "machine.example"; this cluster has machine, digitaloceanmachine, genericmachine`,
		"":                            "a name is empty: write NAME or KIND/NAME",
		"genericmachine/":             "a name is empty: write NAME or KIND/NAME",
		"car/":                        "a name is empty: write NAME or KIND/NAME",
		"genericmachine/db-1/status":  `"db-1/status" is not a valid name: it may not contain '/'`,
		"100%":                        `"100%" is not a valid name: it may not contain '%'`,
		"..":                          `".." is not a valid name: it may not be '..'`,
		"genericmachine/../secrets/x": `"../secrets/x" is not a valid name: it may not contain '/'`,
	} {
		t.Run(strings.ReplaceAll(ref, "/", " "), func(t *testing.T) {
			_, err := w.Resolve(t.Context(), w.namespace, ref)
			require.EqualError(t, err, want)
		})
	}
}

func TestResolveElsewhere(t *testing.T) {
	w, a, b := newWorld(t), newWorld(t), newWorld(t)
	a.machine(t, "GenericMachine", "far", "")
	a.capiMachine(t, "far-pool", "GenericMachine", "far", "")
	b.machine(t, "DigitaloceanMachine", "far", "")
	places := []string{a.namespace, b.namespace}
	if b.namespace < a.namespace {
		places = []string{b.namespace, a.namespace}
	}
	for ref, want := range map[string][]string{
		"far": places, "genericmachine/far": {a.namespace}, "far-pool": {a.namespace}, "machine/far-pool": {a.namespace}, "machine/far": nil,
	} {
		_, err := w.Resolve(t.Context(), w.namespace, ref)
		var gone *inventory.NotFoundError
		require.ErrorAs(t, err, &gone, ref)
		require.Equal(t, want, gone.Elsewhere, ref)
		if want != nil {
			require.EqualError(t, err, `no machine "`+ref+`" in namespace "`+w.namespace+`"; there is one in namespace `+strings.Join(want, ", ")+` (use -n)`)
		}
	}
	// Who may look into one namespace only is not told of others.
	_, err := w.as(t, "clerk", may("rke-machine.cattle.io", []string{"*"}, []string{"get", "list"}), may("cluster.x-k8s.io", []string{"*"}, []string{"get"})).
		Resolve(t.Context(), w.namespace, "far")
	require.EqualError(t, err, `no machine "far" in namespace "`+w.namespace+`" (see 'drover get -A')`)
}

func TestResolveWithFewRights(t *testing.T) {
	w := newWorld(t)
	w.machine(t, "GenericMachine", "db-1", `, labels: {rke.cattle.io/capi-machine-name: pool-a}`)
	w.capiMachine(t, "pool-a", "GenericMachine", "db-1", "")
	ns := w.namespace
	get := []string{"get"}
	machines := w.as(t, "operator", may("rke-machine.cattle.io", []string{"genericmachines"}, []string{"get", "list"}))
	target, err := machines.Resolve(t.Context(), ns, "db-1")
	require.NoError(t, err)
	require.Equal(t, "db-1", target.Machine.Name)
	require.Nil(t, target.CAPIMachine, "its owner may not be seen")
	target, err = machines.Resolve(t.Context(), ns, "pool-a")
	require.NoError(t, err, "the label of the machine tells what the CAPI Machine would")
	require.Equal(t, "db-1", target.Machine.Name)
	_, err = machines.Resolve(t.Context(), ns, "db-9")
	require.EqualError(t, err, `cannot determine whether machine "db-9" exists in namespace "`+ns+`": `+
		"you may not get: machines (cluster.x-k8s.io), digitaloceanmachines (rke-machine.cattle.io) in namespace "+ns+" (ask your administrator for access)")
	_, err = machines.Resolve(t.Context(), ns, "machine/pool-a")
	require.Equal(t, "getting machines "+ns+`/pool-a: machines.cluster.x-k8s.io "pool-a" is forbidden: User "operator" cannot get resource "machines" in API group "cluster.x-k8s.io" in the namespace "`+ns+`"`,
		inventory.Plain(err), "what was asked for by its kind may not be seen")

	owners := w.as(t, "planner", may("cluster.x-k8s.io", []string{"machines"}, get))
	_, err = owners.Resolve(t.Context(), ns, "pool-a")
	require.Equal(t, "getting genericmachines "+ns+`/db-1: genericmachines.rke-machine.cattle.io "db-1" is forbidden: User "planner" cannot get resource "genericmachines" in API group "rke-machine.cattle.io" in the namespace "`+ns+`"`,
		inventory.Plain(err))
	_, err = owners.Resolve(t.Context(), ns, "db-1")
	require.ErrorContains(t, err, `whether machine "db-1" exists`)
	require.ErrorContains(t, err, "you may not get or list: digitaloceanmachines, genericmachines (rke-machine.cattle.io) in namespace "+ns+" (ask your administrator for access)")
}

// TestResolveWithoutKinds: a cluster in which no driver is active, or that has no Drover and no Cluster API.
func TestResolveWithoutKinds(t *testing.T) {
	w := newWorld(t)
	w.capiMachine(t, "pool-a", "GenericMachine", "db-1", "")
	inactive := w.through(t, func(out http.ResponseWriter, r *http.Request) bool {
		return strings.HasPrefix(r.URL.Path, "/apis/rke-machine.cattle.io") && notFound(out)
	})
	target, err := inactive.Resolve(t.Context(), w.namespace, "pool-a")
	require.NoError(t, err)
	require.Equal(t, "pool-a", target.CAPIMachine.Name)
	_, err = inactive.Resolve(t.Context(), w.namespace, "db-1")
	require.EqualError(t, err, `no machine "db-1" in namespace "`+w.namespace+`"; no driver is active in this cluster (see 'drover get drivers')`)
	bare := w.through(t, func(out http.ResponseWriter, r *http.Request) bool {
		return strings.Contains(r.URL.Path, "cattle.io") && notFound(out) || strings.Contains(r.URL.Path, "x-k8s.io") && notFound(out)
	})
	_, err = bare.Resolve(t.Context(), w.namespace, "pool-a")
	require.ErrorContains(t, err, "no driver is active")
	_, err = bare.Resolve(t.Context(), w.namespace, "genericmachine/db-1")
	require.EqualError(t, err, `no kind of machines is called "genericmachine"; this cluster has machine`)
}

func TestNotFoundErrorNamesTheCommand(t *testing.T) {
	err := &inventory.NotFoundError{Name: "a", Namespace: "b", KindsKnown: true, Command: "kubectl drover"}
	require.EqualError(t, err, `no machine "a" in namespace "b" (see 'kubectl drover get -A')`)
	err.KindsKnown = false
	require.EqualError(t, err, `no machine "a" in namespace "b"; no driver is active in this cluster (see 'kubectl drover get drivers')`)
}

// TestResolvePassesErrorsOn: a server that fails is never taken for a name that means nothing.
func TestResolvePassesErrorsOn(t *testing.T) {
	w := resolveWorld(t)
	for part, want := range map[string]string{
		"/apis/rke-machine.cattle.io/v1":                       "asking the API for machine kinds: ",
		"/genericmachines/db-1":                                "getting genericmachines " + w.namespace + "/db-1: ",
		"/machines/db-1":                                       "getting machines " + w.namespace + "/db-1: ",
		"/machines/lonely":                                     "getting machines " + w.namespace + "/lonely: ",
		"/genericmachines/nobody":                              "getting genericmachines " + w.namespace + "/nobody: ",
		"/namespaces/" + w.namespace + "/digitaloceanmachines": "listing digitaloceanmachines: ",
	} {
		api := w.through(t, func(out http.ResponseWriter, r *http.Request) bool {
			return strings.HasSuffix(r.URL.Path, part) && answer(out, failure)
		})
		var errs []error
		for _, ref := range []string{"db-1", "lonely", "nothing"} {
			_, err := api.Resolve(t.Context(), w.namespace, ref)
			errs = append(errs, err)
		}
		require.ErrorContains(t, errors.Join(errs...), want+"etcd is ill", part)
	}
}
