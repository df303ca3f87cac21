package advice

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

func TestMessage(t *testing.T) {
	message := Message("it is not there", []string{"Make it: kubectl create it", "Or another"})
	require.Equal(t, "it is not there\n* Make it: kubectl create it\n* Or another", message)
	what, next := Split(message)
	require.Equal(t, "it is not there", what)
	require.Equal(t, []string{"Make it: kubectl create it", "Or another"}, next)
	what, next = Split(Message("the cloud meaning:\n* Delete it all: kubectl delete it", nil))
	require.Equal(t, "the cloud meaning: Delete it all: kubectl delete it", what, "what a driver says is no advice")
	require.Empty(t, next)
	require.Equal(t, "plain", Message("plain", nil))
}

// TestControlPlane_missingSecrets: each missing object is created by a command that the advice has.
func TestControlPlane_missingSecrets(t *testing.T) {
	for reason, want := range map[string]string{
		rkev1.RegistrySecretMissingReason:     "kubectl create secret generic pull -n shop --type=kubernetes.io/basic-auth --from-file=username=FILE --from-file=password=FILE",
		rkev1.SnapshotCredentialMissingReason: "kubectl create secret generic pull -n shop --from-file=accessKey=FILE --from-file=secretKey=FILE",
		rkev1.FileSourceMissingReason: "kubectl create secret generic pull -n shop --from-file=KEY=FILE && kubectl annotate secret pull -n shop " +
			rkev1.AuthorizedForClustersAnnotation + "=one",
	} {
		next := ControlPlane{Namespace: "shop", Name: "one-cp", Cluster: "one", Kind: "secret", Object: "pull", Field: "authConfigSecretName"}.On(reason)
		require.Contains(t, next[0], ": "+want, reason)
		require.NotContains(t, strings.Join(next, "\n"), "configmap", reason)
	}
	next := ControlPlane{Namespace: "shop", Name: "one-cp", Cluster: "one", Kind: "configmap", Object: "files"}.On(rkev1.FileSourceMissingReason)
	require.Contains(t, next[0], ": kubectl create configmap files -n shop --from-file=KEY=FILE && kubectl annotate configmap files -n shop ")
}

// TestControlPlane_registrySecrets: the advice is for the field that names the Secret, and for no other.
func TestControlPlane_registrySecrets(t *testing.T) {
	for _, reason := range []string{rkev1.RegistrySecretMissingReason, rkev1.RegistrySecretInvalidReason} {
		of := func(field string) string {
			return strings.Join(ControlPlane{Namespace: "shop", Name: "one-cp", Cluster: "one", Kind: "secret", Object: "pull", Field: field}.On(reason), "\n")
		}
		require.Contains(t, of("authConfigSecretName"), "kubectl create secret generic pull -n shop --type=kubernetes.io/basic-auth ", reason)
		require.NotContains(t, of("authConfigSecretName"), "secret tls", reason)
		require.Contains(t, of("tlsSecretName"), "kubectl create secret tls pull -n shop ", reason)
		require.NotContains(t, of("tlsSecretName"), "basic-auth", reason)
	}
	next := ControlPlane{Namespace: "shop", Kind: "secret", Object: "pull", Field: "tlsSecretName"}.On(rkev1.RegistrySecretInvalidReason)
	require.Contains(t, next[0], "Delete the Secret, and create it again: kubectl delete secret pull -n shop; kubectl create")
}

// TestControlPlane_etcdLost: the deletion of a Secret without which no snapshot can be read comes last.
func TestControlPlane_etcdLost(t *testing.T) {
	next := ControlPlane{Namespace: "shop", Name: "one-cp", Cluster: "one", Kind: "secret", Object: "one-cp-rke-state"}.On(rkev1.EtcdLostReason)
	require.Len(t, next, 4)
	require.Contains(t, next[0], "If this namespace was restored from a backup")
	require.Contains(t, next[2], "Only if this namespace was not restored")
	require.Contains(t, next[2], ": kubectl delete secret one-cp-rke-state -n shop")
}

// TestControlPlane_rendered: the user of a provisioning Cluster edits that Cluster.
func TestControlPlane_rendered(t *testing.T) {
	next := ControlPlane{Namespace: "shop", Name: "one", Cluster: "one", Rendered: true}.On(rkev1.ConfigInvalidReason)
	require.Equal(t, []string{"Change it: kubectl edit clusters.provisioning.cattle.io one -n shop"}, next)
	for reason := range controlPlane {
		require.NotContains(t, strings.Join(ControlPlane{Namespace: "shop", Name: "one", Cluster: "one", Rendered: true}.On(reason), "\n"), "edit rkecontrolplanes", reason)
	}
}

// TestControlPlane_distributionLog: advice about probes names the logs of k3s and RKE2.
func TestControlPlane_distributionLog(t *testing.T) {
	for _, reason := range []string{rkev1.WaitingForProbesReason, rkev1.ProbesFailingReason} {
		next := ControlPlane{Namespace: "shop", Name: "one-cp", Machine: "web-1"}.On(reason)
		require.Contains(t, strings.Join(next, "\n"), "drover ssh web-1 -n shop -- 'sudo journalctl -u k3s -u k3s-agent -u rke2-server -u rke2-agent -n 50 --no-pager'", reason)
	}
}

// hostile is what somebody who may make a machine can write into its fields, to be copied into an operator's shell.
var hostile = []string{`$(touch${IFS}marker)`, "`touch${IFS}marker`", `;touch>marker`, `a|b&c>d*\`, `"`, "{name}", "-n", "~", "ü", "https://x.example/d?a=1&b", "$HOME", "!!"}

// odd values have a space or a quote, which no name has.
var odd = []string{"a b", "it's", "x; kubectl delete it", "a\nb", "\x1b[31m", ""}

func TestFill(t *testing.T) {
	w := Words{"name": "web-1", "where": "a new template", "job": ""}
	require.Equal(t, []string{"Look at web-1 in a new template: kubectl get web-1", "NS is not known"},
		w.Fill("Look at {name} in {where}: kubectl get {name}", "Look at {job}", "Look at {pod}", "{ns} is not known"), "what is not there is left out")
	for _, value := range odd {
		require.Equal(t, []string{"NAME"}, Words{"name": value}.Fill("{name}"), value)
	}
	for _, value := range hostile {
		require.Equal(t, "["+value+"]\n", shell(t, "kubectl "+Words{"name": value}.Fill("{name}")[0]), "one word for a shell, and itself")
	}
}

// stubs stand in for the programs of the advice: each argument is printed on a line of its own.
const stubs = `kubectl() { printf '[%s]\n' "$@"; }; drover() { kubectl "$@"; }; curl() { kubectl "$@"; }; sha256sum() { cat; }; `

// shell runs a command as an operator who copied it, and returns the arguments its programs got.
func shell(t *testing.T, command string) string {
	t.Helper()
	dir := t.TempDir()
	run := exec.CommandContext(t.Context(), "/bin/sh", "-u", "-c", stubs+command)
	run.Dir = dir
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s\n%s", command, out)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries, "the command did more than it meaning: %s", command)
	return string(out)
}

// everything is all advice there is, each text once.
func everything() []string {
	all := slices.Concat(noCredential, lendCredential, stillThere, lookFirst, laterState, hostInvalid.next, cancelling, copyOfLive, []string{nextOwnCredential, NextNode, NextRegister})
	for _, next := range machine {
		all = append(all, next...)
	}
	for _, table := range []map[string]failure{classes, results} {
		for _, about := range table {
			all = append(all, about.next...)
		}
	}
	for _, table := range []map[string][]string{drivers, controlPlane} {
		for _, next := range table {
			all = append(all, next...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// words have one value for all that advice names.
func words(value string) Words {
	w := Words{"url": value}
	for name := range (Machine{Cloned: true}).Words() {
		w[name] = value
	}
	for _, name := range append([]string{"object"}, optional...) {
		w[name] = value
	}
	return w
}

// command is where a text's command begins: after a colon or a semicolon.
var command = regexp.MustCompile(`[:;] ((kubectl|drover|curl) .*)$`)

// TestTextsReadWell holds each text to the same form, and runs its commands with hostile values in a real shell.
func TestTextsReadWell(t *testing.T) {
	ambiguous := regexp.MustCompile(`kubectl .*\b(machines?|clusters?|secrets?/)( |$)`)
	require.Regexp(t, ambiguous, "kubectl -n shop delete machine web-1")
	commands := 0
	for _, text := range everything() {
		require.NotRegexp(t, braces, strings.ReplaceAll(words("value").Fill(text)[0], "'", ""), "a word that nothing fills in")
		require.Regexp(t, `^[A-Z]|^spec\.`, text)
		require.False(t, strings.HasSuffix(text, "."), "what ends with a command ends with no full stop: %s", text)
		require.NotContains(t, text, "  ")
		require.NotContains(t, text, "--from-literal", "secrets on a command line are kept in the shell's history")
		require.NotRegexp(t, ambiguous, text, "other systems have Machines and Clusters, too, and kubectl takes the first it finds")
		found := command.FindStringSubmatch(text)
		if found == nil {
			require.NotRegexp(t, `[ ']kubectl `, text, "a command begins after a colon or a semicolon")
			continue
		}
		commands++
		filled := words(hostile[0]).Fill(found[1])[0]
		if out := shell(t, filled); braces.MatchString(found[1]) {
			require.Contains(t, out, hostile[0], filled)
		}
	}
	require.Greater(t, commands, 25)
}

// TestFixedWords: names that stand in the advice are those of the code that they are about.
func TestFixedWords(t *testing.T) {
	all := strings.Join(everything(), "\n")
	for _, word := range []string{rkev1.AllowedNamespacesAnnotation + "={ns}", rkev1.MachineUIDLabel + "={uid}", rkev1.HostnameLengthLimitAnnotation,
		batchv1.JobNameLabel + "={job}", rkev1.MachineGroupVersion.String(), clusterv1.GroupVersion.Group, rkev1.RemoveRestoredAnnotation + "={name}"} {
		require.Contains(t, all, word)
	}
}
