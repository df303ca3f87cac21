package admission_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/admission"
	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/crdgen"
)

// driverWith returns a NodeDriver and the CRDs of a driver with these flags. A flag that ends in ? is a switch, one that ends in !
// holds the content of a file.
func driverWith(t *testing.T, name, annotation string, flags ...string) []client.Object {
	t.Helper()
	var fields []crdgen.Field
	for _, flag := range flags {
		field := crdgen.Field{Flag: strings.Trim(flag, "?!"), Type: crdgen.String, File: strings.HasSuffix(flag, "!")}
		if strings.HasSuffix(flag, "?") {
			field.Type = crdgen.Bool
		}
		parts := strings.Split(strings.TrimPrefix(field.Flag, name+"-"), "-")
		for i, part := range parts {
			if i > 0 {
				part = strings.ToUpper(part[:1]) + part[1:]
			}
			field.Name += part
		}
		fields = append(fields, field)
	}
	config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: name, Fields: fields})
	require.NoError(t, err)
	driver := nodeDriver(name, func(nd *v3.NodeDriver) {
		nd.Spec.URL = "https://drivers.example/x"
		if annotation != "" {
			nd.Annotations = map[string]string{v3.UserDataAnnotation: annotation}
		}
	})
	return []client.Object{driver, config, template, machine}
}

// machineKind is an object of a driver's kind with these options, and with more metadata.
func machineKind(kind string, options, metadata map[string]any) map[string]any {
	meta := map[string]any{"name": "one", "namespace": "team"}
	maps.Copy(meta, metadata)
	obj := map[string]any{"apiVersion": "rke-machine.cattle.io/v1", "kind": kind, "metadata": meta}
	switch {
	case strings.HasSuffix(kind, "Config"):
		obj["apiVersion"] = "rke-machine-config.cattle.io/v1"
		maps.Copy(obj, options)
	case strings.HasSuffix(kind, "Template"):
		obj["spec"] = map[string]any{"template": map[string]any{"spec": options}}
	default:
		obj["spec"] = options
	}
	return obj
}

type options = map[string]any

// TestMachineKinds_userData: options with which the driver would not pass the bootstrap data on are rejected with their fields'
// names, before a Job fails because of them.
func TestMachineKinds_userData(t *testing.T) {
	var objs []client.Object
	objs = append(objs, driverWith(t, "hetzner", "", "hetzner-user-data", "hetzner-user-data-file", "hetzner-user-data-from-file?", "hetzner-additional-user-data")...)
	objs = append(objs, driverWith(t, "vultr", "", "vultr-cloud-init-user-data", "vultr-cloud-init-from-file?")...)
	objs = append(objs, driverWith(t, "vmwarevsphere", "", "vmwarevsphere-cloud-config", "vmwarevsphere-creation-type")...)
	objs = append(objs, driverWith(t, "acme", "flag=acme-data,habit=path,excludes=acme-script,with=acme-mode=raw,unless=acme-legacy=true",
		"acme-data", "acme-script!", "acme-mode", "acme-legacy?")...)
	objs = append(objs, driverWith(t, "unsure", "", "unsure-user-data")...)
	objs = append(objs, nodeDriver("linode", nil))
	c := newClient(t, objs...)
	hook := &admission.MachineKinds{Cached: c, Live: away{}} // the cache has the CRDs
	const merges = "and Drover merges both"
	owned := map[string]any{"ownerReferences": []any{map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": "u"}}}
	for name, tt := range map[string]struct {
		kind     string
		options  options
		metadata map[string]any
		old      options
		refusal  string
		warning  string
	}{
		"a template": {kind: "HetznerMachineTemplate", options: options{"userData": "#cloud-config"}, refusal: "spec.template.spec.userData: driver hetzner does not support this option " +
			"together with spec.template.spec.userDataFile, which carries the bootstrap data: put your user data into spec.template.spec.userDataFile, " + merges},
		"a machine": {kind: "HetznerMachine", options: options{"userData": "#cloud-config"}, refusal: "spec.userData: driver hetzner does not support this option together with spec.userDataFile"},
		"a config":  {kind: "HetznerConfig", options: options{"userData": "#cloud-config"}, refusal: "userData: driver hetzner does not support this option together with userDataFile"},
		"a switch": {kind: "VultrMachineTemplate", options: options{"cloudInitFromFile": true}, refusal: "spec.template.spec.cloudInitFromFile: must be false or unset: " +
			"with another value, driver vultr interprets the bootstrap data in spec.template.spec.cloudInitUserData differently"},
		"two options":                            {kind: "HetznerMachine", options: options{"userData": "#!/bin/sh", "userDataFromFile": true}, refusal: merges + "; spec.userDataFromFile: must be false or unset"},
		"a path":                                 {kind: "HetznerMachine", options: options{"userDataFile": "/etc/data"}, refusal: "spec.userDataFile: must hold user data, not the path of a file"},
		"the driver's own way":                   {kind: "HetznerMachine", options: options{"userDataFile": "#cloud-config", "userDataFromFile": false, "additionalUserData": "#cloud-config"}},
		"empty":                                  {kind: "HetznerMachine", options: options{"userData": "", "userDataFromFile": nil}},
		"an annotation's":                        {kind: "AcmeMachine", options: options{"script": "#!/bin/sh\n", "mode": "file"}, refusal: "spec.script: driver acme does not support"},
		"an annotation's switch is text":         {kind: "AcmeMachine", options: options{"mode": "file"}, refusal: "spec.mode: must be raw or unset"},
		"the driver passes no data on then":      {kind: "AcmeMachine", options: options{"mode": "file", "legacy": true}},
		"a known driver that passes none on":     {kind: "VmwarevsphereMachine", options: options{"creationType": "legacy", "cloudConfig": "/etc/data"}},
		"nobody knows how the driver takes data": {kind: "UnsureMachine", options: options{"userData": "x"}},
		"a driver without user data":             {kind: "LinodeMachine", options: options{"size": "g6"}},
		"made by Cluster API": {kind: "VultrMachine", options: options{"cloudInitFromFile": true},
			metadata: map[string]any{"annotations": map[string]any{"cluster.x-k8s.io/cloned-from-name": "t"}}, warning: "spec.cloudInitFromFile: must be false"},
		"moved with its owners":      {kind: "VultrMachineTemplate", options: options{"cloudInitFromFile": true}, metadata: owned, warning: "spec.template.spec.cloudInitFromFile: must be false"},
		"restored with its server":   {kind: "VultrMachine", options: options{"cloudInitFromFile": true, "providerID": "vultr://1"}, warning: "spec.cloudInitFromFile: must be false"},
		"another field is changed":   {kind: "VultrMachine", options: options{"cloudInitFromFile": true, "providerID": "vultr://1"}, old: options{"cloudInitFromFile": true}},
		"a config's label":           {kind: "HetznerConfig", options: options{"userData": "x"}, old: options{"userData": "x"}},
		"another value as bad":       {kind: "HetznerConfig", options: options{"userData": "y"}, old: options{"userData": "x"}},
		"the option is removed":      {kind: "VultrMachine", options: options{}, old: options{"cloudInitFromFile": true}},
		"the option is added later":  {kind: "VultrMachine", options: options{"cloudInitFromFile": true}, old: options{}, refusal: "spec.cloudInitFromFile: must be false"},
		"while it is being deleted":  {kind: "VultrMachine", options: options{"cloudInitFromFile": true}, old: options{}, metadata: map[string]any{"deletionTimestamp": "2026-01-01T00:00:00Z"}},
		"another option in addition": {kind: "HetznerMachine", options: options{"userData": "x", "userDataFromFile": true}, old: options{"userData": "x"}, refusal: "spec.userDataFromFile: must be"},
	} {
		t.Run(name, func(t *testing.T) {
			req := request(t, admissionv1.Create, machineKind(tt.kind, tt.options, tt.metadata), nil)
			if tt.old != nil {
				req = request(t, admissionv1.Update, machineKind(tt.kind, tt.options, tt.metadata), machineKind(tt.kind, tt.old, nil))
			}
			got := hook.Handle(t.Context(), req)
			expect(t, got, tt.refusal)
			if tt.refusal != "" && strings.HasPrefix(tt.refusal, "spec.") {
				require.True(t, strings.HasPrefix(got.Result.Message, tt.refusal), got.Result.Message)
			}
			if tt.warning == "" {
				require.Empty(t, got.Warnings)
			} else {
				require.Contains(t, got.Warnings[0], tt.warning)
			}
		})
	}

	driver := driverWith(t, "vultr", "", "vultr-cloud-init-user-data", "vultr-cloud-init-from-file?")[0]
	unreadable := &admission.MachineKinds{Cached: newClient(t, driver), Live: away{}}
	got := unreadable.Handle(t.Context(), request(t, admissionv1.Create, machineKind("VultrMachine", options{"cloudInitFromFile": true}, nil), nil))
	require.False(t, got.Allowed)
	require.Equal(t, int32(http.StatusInternalServerError), got.Result.Code)
	require.Contains(t, got.Result.Message, "reading CRD vultrmachines.rke-machine.cattle.io: dial tcp")
}
