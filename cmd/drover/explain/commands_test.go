package explain

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// hostile is what somebody who may make a machine can write into its fields, to be copied into an operator's shell.
const hostile = `a'b"c; touch marker $(touch marker) ` + "`touch marker`" + ` | touch marker & touch marker > marker * \`

// placeholder is a word that values are filled in for.
var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

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
	require.Empty(t, entries, "the command did more than it says: %s", command)
	return string(out)
}

// commandsIn are the commands of a line of advice, as Render keeps them together.
func commandsIn(text string) []string {
	var commands []string
	for _, part := range unbroken(strings.Fields(text)) {
		if word, _, found := strings.Cut(part, " "); found && slices.Contains(programs, word) {
			commands = append(commands, strings.TrimSuffix(part, ";"))
		}
	}
	return commands
}

// allWords are words whose every value is the same.
func allWords(value string) words {
	w := machineWords(&facts.Snapshot{Machine: &facts.Machine{}}, "drover")
	for name := range w {
		w[name] = value
	}
	w["url"], w["kind"], w["cmd"] = value, value, "drover"
	return w
}

// everyAdvice is all advice there is, by where it stands.
func everyAdvice() map[string]advice {
	all := map[string]advice{"none named": noCredential, "cluster paused": pausedCluster, "machine paused": pausedMachine, "cancelling": cancelling, "still there": stillThere}
	for _, next := range []string{nextManager, nextDescribe, nextOwnCredential, nextMakeCredential, nextKeys, nextNode} {
		all[next] = advice{next: []string{next}}
	}
	for name, table := range map[string]map[string]advice{
		"machine": machineAdvice, "class": classAdvice, "driver": driverAdvice, "pod": podAdvice, "result": resultAdvice,
	} {
		for reason, about := range table {
			all[name+" "+reason] = about
		}
	}
	return all
}

// TestCommandsAreSafeToCopy runs every command of every advice with hostile values in a real shell.
func TestCommandsAreSafeToCopy(t *testing.T) {
	w := allWords(hostile)
	seen := map[string]bool{}
	for where, about := range everyAdvice() {
		for _, next := range about.next {
			for i, command := range commandsIn(w.fill(next)) {
				if seen[command] {
					continue
				}
				seen[command] = true
				template := commandsIn(strings.ReplaceAll(next, "{cmd}", "drover"))[i]
				out := shell(t, command)
				if placeholder.MatchString(template) {
					require.Contains(t, out, hostile, "%s: %s", where, command)
				}
			}
		}
	}
	require.Greater(t, len(seen), 25, "commands were found")
}

// TestCommandsStandAtTheEnd: what follows a command on its line would be copied with it.
func TestCommandsStandAtTheEnd(t *testing.T) {
	w := allWords("value")
	for where, about := range everyAdvice() {
		for _, next := range about.next {
			for _, program := range programs {
				text := w.fill(next)
				for _, mention := range []string{" " + program + " ", "'" + program + " "} {
					before, _, found := strings.Cut(text, mention)
					if !found {
						continue
					}
					require.True(t, strings.HasSuffix(before, ":") || strings.HasSuffix(before, ";") || len(commandsIn(before)) > 0,
						"%s: a command begins after a colon or a semicolon: %s", where, next)
				}
			}
			for _, command := range commandsIn(w.fill(next)) {
				require.False(t, strings.HasSuffix(command, "."), "%s: a full stop is copied with the command: %s", where, next)
			}
		}
	}
}

// TestAdviceReadsWell holds each text to the same form.
func TestAdviceReadsWell(t *testing.T) {
	for where, about := range everyAdvice() {
		if about.says != "" {
			require.True(t, strings.HasSuffix(about.says, "."), "%s: a sentence ends with a full stop: %s", where, about.says)
			require.Regexp(t, `^[A-Z{]`, about.says, where)
		}
		for _, next := range about.next {
			require.False(t, strings.HasSuffix(next, "."), "%s: a line may end with a command, and so never with a full stop: %s", where, next)
			require.Regexp(t, `^[A-Z]|^spec\.`, next, where)
			require.NotContains(t, next, "  ", where)
			require.NotContains(t, next, "--from-literal", "%s: secrets on a command line are kept in the shell's history", where)
		}
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(about.next))), len(about.next), "%s says a thing twice", where)
	}
}

// TestFilledValueIsOneWordForAShell: a value is one word for a shell, and itself.
func TestFilledValueIsOneWordForAShell(t *testing.T) {
	check := func(value string) {
		value = clean(value)
		if value == "" {
			return
		}
		require.Equal(t, "["+value+"]\n", shell(t, "kubectl "+words{"name": value}.fill("{name}")))
	}
	for _, seed := range []string{hostile, "it's", "--", "a\tb", "\\", "''", "ü"} {
		check(seed)
	}
}

func TestFillTakesValuesAsTheyAre(t *testing.T) {
	w := words{"cmd": "kubectl drover", "name": "{ns}", "ns": "shop"}
	require.Equal(t, "kubectl drover why '{ns}' -n shop", w.fill("{cmd} why {name} -n {ns}"), "a value that looks like a word is a value")
	require.Equal(t, "{unknown} stays", w.fill("{unknown} stays"))
}

func TestSayLeavesOutWhatIsNotThere(t *testing.T) {
	about := advice{says: "Something.", next: []string{"Look at {pod}", "Look at {job}", "Ask about {name}", "Ask about {name}"}}
	r := &Report{}
	r.say(about, words{"name": "web-1", "job": "web-1-create-1", "pod": ""})
	r.say(about, words{"name": "web-1", "job": "web-1-create-1"})
	require.Equal(t, []string{"Something."}, r.Verdict)
	require.Equal(t, []string{"Look at web-1-create-1", "Ask about web-1"}, r.Next, "no pod, and nothing twice")
}

// TestMachineWordsAreComplete: what is not known stands in capitals, so that a command shows what is missing.
func TestMachineWordsAreComplete(t *testing.T) {
	m := &facts.Machine{Kind: facts.Kind{Name: "AzureMachine", Resource: "azuremachines"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "u"}}
	require.Equal(t, words{
		"cmd": "drover", "name": "web-1", "ns": "shop", "podns": "shop", "kind": "AzureMachine", "uid": "u", "plural": "azuremachines",
		"resource": "azuremachines.rke-machine.cattle.io", "template": "", "itself": "azuremachines.rke-machine.cattle.io", "where": "the machine itself",
		"capi": "CAPI", "cluster": "CLUSTER", "driver": "azure", "job": "", "pod": "", "node": "", "bootstrap": "BOOTSTRAP",
		"credential": "CREDENTIAL", "credentialns": "shop", "credentialname": "CREDENTIALNAME", "instance": "web-1", "state": "web-1-machine-state",
	}, machineWords(&facts.Snapshot{Machine: m}, "drover"))

	m.Spec.Common.CloudCredentialSecretName = "clouds:azure"
	m.Status.InstanceName, m.Status.JobName = "pool-web-1", "refuge-u-rm-1"
	w := machineWords(&facts.Snapshot{Machine: m, State: &facts.State{Name: "other-state"}, Driver: &v3.NodeDriver{Spec: v3.NodeDriverSpec{DisplayName: "Azure"}}}, "drover")
	require.Equal(t, []string{"clouds/azure", "clouds", "azure"}, []string{w["credential"], w["credentialns"], w["credentialname"]})
	require.Equal(t, []string{"pool-web-1", "other-state", "refuge-u-rm-1", "drover-drivers"}, []string{w["instance"], w["state"], w["job"], w["podns"]})
}

// TestTheManagerIsWhereTheChartPutsIt: the command for its log is the first an operator tries.
func TestTheManagerIsWhereTheChartPutsIt(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "drover", "templates", "manager.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(raw), "kind: Deployment\nmetadata:\n  name: drover-manager\n")
	require.Contains(t, nextManager, "deploy/drover-manager")
}

// TestCommandsNameTheGroup: other systems have Machines and Clusters, too, and kubectl takes the first it finds.
func TestCommandsNameTheGroup(t *testing.T) {
	ambiguous := regexp.MustCompile(`kubectl .*\b(machines?|clusters?|secrets?/)( |$)`)
	for where, about := range everyAdvice() {
		for _, next := range about.next {
			require.NotRegexp(t, ambiguous, next, where)
		}
	}
	require.Regexp(t, ambiguous, "kubectl -n shop delete machine web-1")
}

// TestFixedWords: names that stand in the advice are those of the code that they are about.
func TestFixedWords(t *testing.T) {
	all := &strings.Builder{}
	for _, about := range everyAdvice() {
		all.WriteString(strings.Join(about.next, "\n") + "\n" + about.says + "\n")
	}
	for _, word := range []string{
		rkev1.AllowedNamespacesAnnotation + "={ns}", rkev1.MachineUIDLabel + "={uid}", clusterv1.PausedAnnotation + "-", rkev1.HostnameLengthLimitAnnotation,
		batchv1.JobNameLabel + "={job}", rkev1.MachineGroupVersion.String(), clusterv1.GroupVersion.Group,
	} {
		require.Contains(t, all.String(), word)
	}
}

// TestCommandsReachTheClusterThatWasAsked: an advice may be to delete something, and contexts have names that are alike.
func TestCommandsReachTheClusterThatWasAsked(t *testing.T) {
	w := allWords("value")
	w["cmd"] = "kubectl drover --context 'my prod'"
	for where, about := range everyAdvice() {
		for _, next := range about.next {
			for _, command := range commandsIn(w.fill(next)) {
				if !strings.HasPrefix(command, "curl ") {
					require.Regexp(t, `^kubectl (drover )?--context 'my prod' `, command, where)
				}
			}
		}
	}
	require.Equal(t, "kubectl --context 'my prod' delete 'kubectl x'", words{"cmd": w["cmd"], "name": "kubectl x"}.fill("kubectl delete {name}"), "a value is no command")
}
