package machine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi/workload"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/controllers/machine"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// nodes is a workload cluster as far as the controller asks for it.
type nodes struct {
	id    string
	asked []workload.Server
}

var _ machine.NodeFinder = (*nodes)(nil)

func (n *nodes) ProviderID(_ context.Context, _ client.ObjectKey, server workload.Server) (string, error) {
	n.asked = append(n.asked, server)
	return n.id, nil
}

func (n *nodes) OnNode(func(client.ObjectKey, types.UID)) {}

func TestProviderID_fromTheNode(t *testing.T) {
	w := newWorld(t)
	found := &nodes{}
	w.nodes = found
	s := w.machine("digitalocean", "m", droplet())
	s.reconcile()
	s.succeed(1)
	s.write(map[string]any{state.ServerKey: state.Server{InstanceID: "1", Addresses: []clouds.Address{{Type: "ExternalIP", Address: "203.0.113.7"}}}})

	result := testkit.ExpectReconciled(t, s.reconciler, s.obj)
	status := s.read()
	require.Equal(t, 5*time.Minute, result.RequeueAfter, "a safety net only: the Node is watched")
	s.expect(rkev1.ReadyCondition, metav1.ConditionTrue, "")
	s.expect(rkev1.ProviderIDKnownCondition, metav1.ConditionFalse, rkev1.WaitingForNodeReason)
	require.Nil(t, status.Initialization.Provisioned)
	require.Equal(t, workload.Server{Machine: s.capi.UID, Name: "m", Addresses: []string{"203.0.113.7"}, ProviderID: "drover://" + w.namespace + "/m"}, found.asked[0])

	found.id = "k3s://m"
	status = s.reconcile()
	require.True(t, *status.Initialization.Provisioned)
	require.True(t, status.Ready)
	testkit.ExpectObserved(t, s.obj)
}

// Under our own bootstrap the Node gets its ID from the plan, which waits for it: it is known at once, and nobody looks for a Node by its label,
// in which such a Node has the machine's ID and no UID.
func TestProviderID_underOurBootstrap(t *testing.T) {
	for driver, spec := range map[string]map[string]any{"digitalocean": droplet(), "acme": {"token": "from-the-spec"}} {
		t.Run(driver, func(t *testing.T) {
			w := newWorld(t)
			found := &nodes{id: "k3s://m"}
			w.nodes = found
			s := w.machine(driver, "m", spec)
			if driver == "acme" {
				s.external("acme", "https://drivers.test/acme", strings.Repeat("a", 64)) // a plugin's
			}
			s.capi.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEBootstrap", Name: "m"}
			require.NoError(t, w.client.Update(t.Context(), s.capi))
			s.reconcile()
			s.succeed(1)
			s.write(map[string]any{state.ServerKey: state.Server{InstanceID: "1", Addresses: []clouds.Address{{Type: "ExternalIP", Address: "203.0.113.7"}}}})
			require.True(t, *s.reconcile().Initialization.Provisioned)
			require.Equal(t, "drover://"+w.namespace+"/m", rkev1.DriverMachine{Unstructured: s.obj}.ProviderID())
			require.Empty(t, found.asked)
		})
	}
}

func TestProviderID_ofTheUserStays(t *testing.T) {
	spec := droplet()
	spec["providerID"] = "mine://1"
	s := newWorld(t).machine("digitalocean", "m", spec)
	s.reconcile()
	require.Equal(t, "mine://1", s.requestOf(state.Create, 1).ProviderID)
	s.succeed(1)
	s.reconcile()
	got, _ := s.obj.Object["spec"].(map[string]any)
	require.Equal(t, "mine://1", got["providerID"])
}

func TestState_thatCannotBeRead(t *testing.T) {
	for name, text := range map[string]string{"gone": "", "rubbish": "{"} {
		t.Run(name, func(t *testing.T) {
			s := begun(t)
			s.succeed(1)
			s.write(map[string]any{state.ServerKey: text})
			s.reconcile()
			s.expect(rkev1.StateStoredCondition, metav1.ConditionFalse, rkev1.StateMissingReason)
			s.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.StateMissingReason)
		})
	}
}

// TestProviderID_fromATemplateAddedLater: a server was made while its NodeDriver did not say what a provider ID is; when it does,
// the record in the state is enough, and no Job runs.
func TestProviderID_fromATemplateAddedLater(t *testing.T) {
	archive, err := sshkeys.WriteArchive("/home/machine/machines", []sshkeys.File{
		{Path: "m/config.json", Mode: 0o600, Content: []byte(`{"DriverName":"acme","Driver":{"Region":"x","ServerUUID":"u-1"}}`)}})
	require.NoError(t, err)
	blanked, err := sshkeys.WriteArchive("/home/machine/machines", []sshkeys.File{
		{Path: "m/config.json", Mode: 0o600, Content: []byte(`{"DriverName":"acme","Driver":{"Region":"","ServerUUID":"u-1"}}`)}})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		archive []byte
		want    string
		message string
	}{
		"the record has it":          {archive, "acme://x/u-1", ""},
		"an archive that is no such": {[]byte("a tar.gz"), "", "does not contain the provider ID: "},
		"a field of the credential":  {blanked, "", "names Region, which is empty in the record"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWorld(t).machine("acme", "m", map[string]any{"token": "from-the-spec"})
			nd := s.external("acme", "https://drivers.test/acme", strings.Repeat("a", 64))
			s.reconcile()
			s.succeed(1)
			s.write(map[string]any{state.ServerKey: state.Server{InstanceID: "u-1"}, state.ExtractedConfigKey: string(c.archive)})
			s.reconcile()
			s.expect(rkev1.ProviderIDKnownCondition, metav1.ConditionFalse, rkev1.WaitingForNodeReason)
			nd.Spec.ProviderIDTemplate = "acme://{Region}/{ServerUUID}"
			require.NoError(t, s.client.Update(t.Context(), nd))
			s.reconcile()
			got, _ := s.obj.Object["spec"].(map[string]any)["providerID"].(string)
			require.Equal(t, c.want, got)
			if c.want == "" {
				require.Contains(t, s.expect(rkev1.ProviderIDKnownCondition, metav1.ConditionFalse, rkev1.WaitingForNodeReason).Message, c.message)
			}
			if name != "a field of the credential" {
				return
			}
			// The Node of our own bootstrap waits for its plan, which waits for the ID.
			s.capi.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEBootstrap", Name: "m"}
			require.NoError(t, s.client.Update(t.Context(), s.capi))
			s.reconcile()
			message := s.expect(rkev1.ProviderIDKnownCondition, metav1.ConditionFalse, rkev1.ProviderIDMissingReason).Message
			require.Contains(t, message, "the record never contains credential fields): set spec.providerID, which Drover passes to the kubelet")
			require.NotContains(t, message, "taken from the Node")
		})
	}
}
