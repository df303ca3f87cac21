package planner_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/planner"
	"github.com/drover-project/drover/testkit/golden"
)

// changes has another value of each field of a specification, beside the values of everyOption.
var changes = map[string][]string{
	"upgradeStrategy":     {"{workerConcurrency: '3'}"},
	"chartValues":         {"{rke2-calico: {tigera: {enabled: true}}}"},
	"machineGlobalConfig": {"{cluster-cidr: 10.42.0.0/16, service-cidr: 10.43.0.0/16, kubelet-arg: [max-pods=201], tls-san: [b.example.org], profile: cis}"},
	"machineSelectorConfig": {"[{machineLabelSelector: {matchLabels: {rke.cattle.io/worker-role: 'true'}}, config: {kubelet-arg: [max-pods=61]}}]",
		"[{machineLabelSelector: {matchLabels: {pool: batch}}, config: {protect-kernel-defaults: true}}]", "null"},
	"machineSelectorFiles": {
		"[{fileSources: [{configMap: {name: files, defaultPermissions: '0644', items: [{key: motd, path: /etc/motd, dynamic: true}, {key: motd, path: /etc/x.conf}]}}]}]",
		"[{fileSources: [{configMap: {name: files, defaultPermissions: '0644', items: [{key: conf, path: /etc/motd, dynamic: true}, {key: conf, path: /etc/x.conf}]}}]}]"},
	"additionalManifest":       {"'kind: ConfigMap'", "null"},
	"registries":               {"{mirrors: {docker.io: {endpoint: [https://other.example.com]}}}", "{configs: {mirror.example.com: {tlsSecretName: client}}}", "null"},
	"etcd":                     {"{snapshotRetention: 4}", "{s3: {cloudCredentialName: s3}}"},
	"networking":               {"{stackPreference: dual}"},
	"dataDirectories":          {"{k8sDistro: /data}"},
	"provisionGeneration":      {"3"},
	"agentEnvVars":             {"[{name: HTTPS_PROXY, value: 'http://other.example.com:3128'}]", "null"},
	"localClusterAuthEndpoint": {"{enabled: true}"},
	"etcdSnapshotCreate":       {"{generation: 1}"},
	"etcdSnapshotRestore":      {"{generation: 1, name: one}"},
	"rotateCertificates":       {"{generation: 1}"},
	"rotateEncryptionKeys":     {"{generation: 1}"},
	"kubernetesVersion":        {"v1.36.2+k3s1"},
	"unmanagedConfig":          {"true"},
}

// TestEffects_fields shows the effect of each field, which nobody wrote by hand, and compares it with
// the plans that the planner delivers.
func TestEffects_fields(t *testing.T) {
	var shown strings.Builder
	for _, field := range fieldNames(reflect.TypeFor[rkev1.RKEControlPlaneSpec]()) {
		if slices.Contains([]string{"clusterName", "managementClusterName"}, field) {
			continue
		}
		require.NotEmpty(t, changes[field], "a change of spec.%s has an effect that no test shows", field)
		for _, value := range changes[field] {
			w := full(t, "v1.36.3+k3s1")
			w.object(planner.SecretKind, "client", "{type: kubernetes.io/tls, data: {tls.crt: $CERTIFICATE, tls.key: $KEY}}")
			w.object(planner.SecretKind, "s3", "{data: {accessKey: s3-access, secretKey: s3-password, defaultBucket: backups}}")
			w.machine("server-1", "{roles: etcd control-plane}")
			w.machine("batch-2", "{roles: worker, labels: {pool: batch}}")
			w.machine("web-3", "{roles: worker, labels: {pool: web}}")
			w.settle()
			before := w.instructions()
			checksums := w.checksums()
			snapshot := w.snapshot()
			snapshot.Objects, snapshot.Tokens, snapshot.Authorities = nil, planner.Tokens{}, planner.Authorities{}
			w.spec(field + ": " + value)

			changed := snapshot
			changed.Spec = w.cluster.Spec
			fields, whole, err := planner.Effects(snapshot, changed)
			require.NoError(t, err, field)
			fmt.Fprintf(&shown, "%s: %s\n", field, value)
			for _, effect := range fields {
				fmt.Fprintf(&shown, "  %-30s restarted %v, updated %v%s\n", effect.Field, effect.Restarted, effect.Updated, effect.Unknown)
			}

			w.settle()
			var restarted, updated []string
			for name, checksum := range w.checksums() {
				switch {
				case w.instructions()[name] != before[name]:
					restarted = append(restarted, name)
				case checksum != checksums[name]:
					updated = append(updated, name)
				}
			}
			slices.Sort(restarted)
			slices.Sort(updated)
			require.Equal(t, restarted, whole.Restarted, "%s: %s\n%s", field, value, w.out.String())
			require.Equal(t, updated, whole.Updated, "%s: %s\n%s", field, value, w.out.String())
		}
	}
	golden.Require(t, "testdata/effects.txt", shown.String())
}

// settle plans until no machine gets another plan, and lets each agent apply its plan.
func (w *world) settle() {
	for range 2 * len(w.machines) {
		w.plan()
		for name := range w.machines {
			if len(w.machines[name].Secret.Data[plan.KeyPlan]) > 0 {
				w.agent(name, "is-well", "")
			}
		}
	}
}

// instructions are what the agents run, without DRAIN_HASH, by machine.
func (w *world) instructions() map[string]string {
	all := map[string]string{}
	for name, m := range w.machines {
		delivered, err := plan.Decode(m.Secret.Data[plan.KeyPlan])
		require.NoError(w.t, err)
		for _, one := range delivered.Instructions {
			one.Env = slices.DeleteFunc(one.Env, func(v string) bool { return strings.HasPrefix(v, "DRAIN_HASH=") })
			all[name] += fmt.Sprint(one)
		}
	}
	return all
}

func (w *world) checksums() map[string]string {
	all := map[string]string{}
	for name, m := range w.machines {
		all[name] = plan.Checksum(m.Secret.Data[plan.KeyPlan])
	}
	return all
}

// fieldNames are the names in JSON of a struct's fields and of inlined structs.
func fieldNames(of reflect.Type) []string {
	var names []string
	for _, field := range reflect.VisibleFields(of) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && !field.Anonymous {
			names = append(names, name)
		}
	}
	return names
}
