package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
	"github.com/drover-project/drover/testkit/access"
)

// TestManagerRole: the manager lives through its whole story with the rights of its service account and no others. What it
// asks for and may not, and what it may and never asks for, both fail. Cluster API runs elsewhere, so that only our own
// requests count; what the embedded one may do is compared with its own role in package capi.
func TestManagerRole(t *testing.T) {
	config := testkit.Fresh(t)
	scheme, err := newScheme()
	require.NoError(t, err)
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	installCAPI(t, c)
	objs, err := charts.Objects(charts.Settings{Image: "drover.local/drover:test", WithCRDs: true})
	require.NoError(t, err)
	token := accountToken(t, config, c, objs)
	recorder := access.NewRecorder(t, config)

	s := &story{T: t, client: c, namespace: "team"}
	s.setting()
	stop := startManager(t, recorder.Kubeconfig(t, token), "--capi=external", "--leader-elect", "--scan-interval=10s")
	awaitActive(t, c, "digitalocean")
	require.NoError(t, c.Create(t.Context(), machineOf(s.namespace, "m0", "DigitaloceanMachine", "cred")))
	s.registerDriver()
	s.machineLife()
	s.scanServers()
	s.scansByItself()
	s.forgetDriver()
	s.cancelledLife()
	stop()
	embedded := s.embed(config, token)

	require.Empty(t, lines(recorder.Refused()), "the API server refused what the manager needs")
	require.Empty(t, lines(embedded.Refused()), "the API server refused what the manager needs with Cluster API embedded")
	used := slices.Concat(withLists(recorder.Uses()), webhookUses(embedded.Uses()), handedOn(t, c))
	require.Empty(t, access.Compare(ownGrants(t, objs), recorder.Uses()).Missing, "our own code lives on what is granted for Cluster API's")
	unused := access.Compare(ownGrants(t, objs), used).Unused
	require.Equal(t, slices.Sorted(maps.Keys(notSeen)), unused, "granted, and never asked for: take it out of the markers, or say in notSeen what it is for")
}

// notSeen are grants that no test can make the manager use, with what they are for.
var notSeen = map[string]string{
	"patch events":               "an event that comes again is counted up in the one that is there, some minutes later",
	"patch events.events.k8s.io": "the same",
	"update nodedrivers/finalizers.management.cattle.io":                                    "asked for by an API server with OwnerReferencesPermissionEnforcement",
	"update serverscans/finalizers.rke.cattle.io":                                           "the same",
	"update clusterroles/finalizers.rbac.authorization.k8s.io drover-manager":               "the same",
	"update clusterroles/finalizers.rbac.authorization.k8s.io drover-system-drover-manager": "the same",
	"get clusterroles.rbac.authorization.k8s.io drover-system-drover-manager":               "its name when clusterctl installed it; see install TestObjects",
}

// TestManagerRole_generated: the role that is installed is the one that the source asks for.
func TestManagerRole_generated(t *testing.T) {
	role, err := charts.ManagerRole()
	require.NoError(t, err)
	asked := slices.Concat(access.Grants(access.Markers(t, "../../capi")), markedGrants(t))
	got := access.Compare(access.Grants(role.Rules), asked)
	require.Empty(t, got.Missing, "run make generate")
	require.Empty(t, got.Unused, "run make generate")
}

// embed starts the manager with Cluster API in it.
func (s *story) embed(config *rest.Config, token string) *access.Recorder {
	s.Helper()
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	require.NoError(s, s.client.List(s.Context(), crds))
	for _, crd := range crds.Items {
		if strings.HasSuffix(crd.Spec.Group, "cluster.x-k8s.io") {
			patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, capi.InstalledByLabel, capi.InstalledByValue)
			require.NoError(s, s.client.Patch(s.Context(), &crd, client.RawPatch("application/merge-patch+json", []byte(patch))))
		}
	}
	recorder := access.NewRecorder(s, config)
	stop := startManager(s.T, recorder.Kubeconfig(s, token), "--capi=embedded", "--leader-elect")
	awaitActive(s.T, s.client, "digitalocean")
	stop()
	return recorder
}

// withLists adds the right to list to that to watch: an informer lists where the API server cannot stream a list.
func withLists(uses []access.Grant) []access.Grant {
	for _, use := range uses {
		if use.Verb == "watch" {
			use.Verb = "list"
			uses = append(uses, use)
		}
	}
	return uses
}

func webhookUses(uses []access.Grant) []access.Grant {
	return slices.DeleteFunc(uses, func(use access.Grant) bool { return use.Group != "admissionregistration.k8s.io" })
}

func installCAPI(t *testing.T, c client.WithWatch) {
	t.Helper()
	crds, err := capi.CRDs()
	require.NoError(t, err)
	var names []string
	for _, crd := range crds {
		require.NoError(t, c.Create(t.Context(), crd))
		names = append(names, crd.Name)
	}
	require.NoError(t, apply.AwaitEstablished(t.Context(), c, names...))
}

// accountToken applies what `manager manifests` prints, but for what needs other controllers, and gives a token of the
// manager's service account.
func accountToken(t *testing.T, config *rest.Config, c client.Client, objs []client.Object) string {
	t.Helper()
	for _, obj := range objs {
		if _, skip := obj.(*appsv1.Deployment); !skip {
			require.NoError(t, client.IgnoreAlreadyExists(c.Create(t.Context(), obj.DeepCopyObject().(client.Object))))
		}
	}
	clients, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	token, err := clients.CoreV1().ServiceAccounts(charts.DefaultNamespace).CreateToken(t.Context(), charts.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return token.Status.Token
}

// handedOn is what the manager gives to others: nobody can give what he does not have.
func handedOn(t *testing.T, c client.Client) []access.Grant {
	t.Helper()
	var out []access.Grant
	// Those of Jobs are gone by now.
	for _, operation := range []state.Operation{state.Probe, state.Create, state.Remove} {
		role := jobrunner.Role(jobrunner.Task{Request: jobrunner.Request{Operation: operation, StateSecret: "state"}})
		out = append(out, access.Grants(role.Rules)...)
	}
	roles, clusterRoles := &rbacv1.RoleList{}, &rbacv1.ClusterRoleList{}
	require.NoError(t, c.List(t.Context(), roles))
	require.NoError(t, c.List(t.Context(), clusterRoles))
	for _, role := range roles.Items {
		if slices.ContainsFunc(role.ManagedFields, byManager) {
			out = append(out, access.Grants(role.Rules)...)
		}
	}
	for _, role := range clusterRoles.Items {
		if slices.ContainsFunc(role.ManagedFields, byManager) {
			out = append(out, access.Grants(role.Rules)...)
		}
	}
	return out
}

func byManager(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == "drover-manager" || entry.Manager == "drover-machine" || entry.Manager == "drover-nodedriver"
}

// ownGrants are all that the manager may do, but for what only the embedded Cluster API needs.
func ownGrants(t *testing.T, objs []client.Object) []access.Grant {
	t.Helper()
	out := markedGrants(t)
	for _, obj := range objs {
		if role, is := obj.(*rbacv1.Role); is {
			out = append(out, access.Grants(role.Rules)...)
		}
	}
	return out
}

// markedGrants are what the markers in our source ask for.
func markedGrants(t *testing.T) []access.Grant {
	t.Helper()
	var out []access.Grant
	for _, dir := range []string{"controllers/machine", "controllers/nodedriver", "controllers/rkecluster", "controllers/serverscan", "install", "cmd/manager"} {
		rules := access.Markers(t, filepath.Join("../..", dir))
		require.NotEmpty(t, rules, dir)
		out = append(out, access.Grants(rules)...)
	}
	return out
}

func lines(grants []access.Grant) []string {
	var out []string
	for _, grant := range grants {
		out = append(out, grant.String())
	}
	slices.Sort(out)
	return out
}
