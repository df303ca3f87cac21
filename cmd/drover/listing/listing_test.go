package listing_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/listing"
)

var update = flag.Bool("update", false, "write the golden files")

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func machines() []*facts.Machine {
	next := metav1.NewTime(now.Add(7 * time.Minute))
	deleted := metav1.NewTime(now.Add(-time.Minute))
	machine := func(kind, name string, minutes int, status rkev1.RKEMachineStatus) *facts.Machine {
		return &facts.Machine{
			Kind: facts.Kind{Name: kind, Singular: strings.ToLower(kind)},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(minutes) * time.Minute)),
				Labels: map[string]string{clusterv1.ClusterNameLabel: "store", rkev1.CAPIMachineLabel: name},
			},
			Status: status,
		}
	}
	ready := func(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: rkev1.ReadyCondition, Status: status, Reason: reason, Message: message}}
	}
	runs := machine("DigitaloceanMachine", "web-1", 41, rkev1.RKEMachineStatus{
		Phase: rkev1.PhaseRunning, Conditions: ready(metav1.ConditionTrue, "Ready", ""), InstanceName: "web-1", JobName: "web-1-create-1", Attempts: 1,
		Addresses: []clusterv1.MachineAddress{{Type: clusterv1.MachineExternalIP, Address: "198.18.0.11"}},
	})
	runs.Spec.ProviderID = "digitalocean://4711"
	fails := machine("DigitaloceanMachine", "web-2", 12, rkev1.RKEMachineStatus{
		Phase: rkev1.PhaseCreating, Conditions: ready(metav1.ConditionFalse, "WaitingForRetry", "droplet limit"), Attempts: 2, NextAttemptTime: &next,
	})
	goes := machine("VmwarevsphereMachine", "db-1", 3000, rkev1.RKEMachineStatus{Phase: rkev1.PhaseRunning})
	goes.DeletionTimestamp = &deleted
	bare := machine("MycloudMachine", "new", 0, rkev1.RKEMachineStatus{})
	bare.Labels, bare.Namespace = nil, "other"
	return []*facts.Machine{fails, runs, bare, goes}
}

func drivers() []v3.NodeDriver {
	driver := func(name, kind string, active bool, ready metav1.ConditionStatus, reason string) v3.NodeDriver {
		d := v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
		d.Spec.Active, d.Spec.URL = active, "local://"
		d.Status.MachineKind = kind
		d.Status.Conditions = []metav1.Condition{{Type: v3.ReadyCondition, Status: ready, Reason: reason}}
		return d
	}
	mycloud := driver("nd-1", "MycloudMachine", true, metav1.ConditionTrue, "Ready")
	mycloud.Spec.DisplayName, mycloud.Spec.URL, mycloud.Status.Fields = "my-cloud", "https://drivers.example/d", 7
	return []v3.NodeDriver{mycloud, driver("azure", "", false, metav1.ConditionFalse, "Inactive")}
}

func TestMachines(t *testing.T) {
	list := listing.NewMachineList(machines(), drivers())
	golden(t, "machines.txt", render(t, listing.MachineTable(list.Items, false, now), false))
	golden(t, "machines-wide-all.txt", render(t, listing.MachineTable(list.Items, true, now), true))
	golden(t, "machines.json", document(t, list))
}

func TestDrivers(t *testing.T) {
	list := listing.NewDriverList(drivers())
	golden(t, "drivers.txt", render(t, listing.DriverTable(list.Items, now), false))
	golden(t, "drivers-wide.txt", render(t, listing.DriverTable(list.Items, now), true))
	golden(t, "drivers.json", document(t, list))
}

func TestEmptyListIsAList(t *testing.T) {
	require.JSONEq(t, `{"apiVersion":"cli.drover.cattle.io/v1","kind":"MachineList","items":[]}`, string(document(t, listing.NewMachineList(nil, nil))))
}

func render(t *testing.T, table *metav1.Table, wide bool) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, printers.NewTablePrinter(printers.PrintOptions{Wide: wide}).PrintObj(table, &out))
	return out.Bytes()
}

func document(t *testing.T, value any) []byte {
	t.Helper()
	raw, err := json.MarshalIndent(value, "", "    ")
	require.NoError(t, err)
	return append(raw, '\n')
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "run the test with -update")
	require.Equal(t, string(want), string(got))
}
