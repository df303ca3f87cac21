package listing_test

import (
	"bytes"
	"encoding/json"
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
	"github.com/drover-project/drover/testkit/golden"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func machines() []*facts.Machine {
	zone := time.FixedZone("here", 3600) // what is shown is UTC all the same
	next := metav1.NewTime(now.Add(7 * time.Minute).In(zone))
	deleted := metav1.NewTime(now.Add(-time.Minute))
	machine := func(kind, name string, minutes int, status rkev1.RKEMachineStatus) *facts.Machine {
		return &facts.Machine{
			Kind: facts.Kind{Name: kind, Singular: strings.ToLower(kind)},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(minutes) * time.Minute).In(zone)),
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
	golden.Require(t, "testdata/machines.txt", render(t, listing.MachineTable(list.Items, false, now), false))
	golden.Require(t, "testdata/machines-wide-all.txt", render(t, listing.MachineTable(list.Items, true, now), true))
	golden.Require(t, "testdata/machines.json", document(t, list))
}

func TestDrivers(t *testing.T) {
	list := listing.NewDriverList(drivers())
	golden.Require(t, "testdata/drivers.txt", render(t, listing.DriverTable(list.Items, now), false))
	golden.Require(t, "testdata/drivers-wide.txt", render(t, listing.DriverTable(list.Items, now), true))
	golden.Require(t, "testdata/drivers.json", document(t, list))
}

func TestEmptyListIsAList(t *testing.T) {
	require.JSONEq(t, `{"apiVersion":"cli.drover.cattle.io/v1","kind":"MachineList","items":[]}`, document(t, listing.NewMachineList(nil, nil)))
}

func render(t *testing.T, table *metav1.Table, wide bool) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, printers.NewTablePrinter(printers.PrintOptions{Wide: wide}).PrintObj(table, &out))
	return out.String()
}

func document(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.MarshalIndent(value, "", "    ")
	require.NoError(t, err)
	return string(raw) + "\n"
}
