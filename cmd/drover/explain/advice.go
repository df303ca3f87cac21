package explain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/jobrunner"
)

// advice is what a reason means and what to do about it. Words in braces are filled in by words.
type advice struct {
	// says completes the verdict: one sentence.
	says string
	// waits marks a reason that goes away by itself or by another part's work; others are failures.
	waits bool
	// next is what to do, best first; empty means nothing.
	next []string
}

// words are the values for the words in braces.
type words map[string]string

// objectWords are those of objects that may not be there: advice that names one of them is given only when it is. A machine has a template or is
// edited itself, so that one of the two words is empty.
var objectWords = []string{"job", "pod", "node", "template", "itself"}

// lacks reports whether a text needs a word of an object that is not there.
func (w words) lacks(text string) bool {
	return slices.ContainsFunc(objectWords, func(name string) bool {
		return w[name] == "" && strings.Contains(text, "{"+name+"}")
	})
}

// commandWord may be several words for a shell; whereWord is prose.
const (
	commandWord = "cmd"
	whereWord   = "where"
)

// fill puts the words into a text. People copy commands from it into their shell, so that each value stays one word there:
// some come from fields in which anybody who may make a machine can write anything.
func (w words) fill(text string) string {
	// kubectl must not reach another cluster than we do: an advice may be to delete something.
	pairs := []string{"kubectl ", facts.Kubectl(w[commandWord]) + " "}
	for name, value := range w {
		if name != commandWord && name != whereWord {
			value = facts.Word(clean(value))
		}
		pairs = append(pairs, "{"+name+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// say adds an advice to the verdict and to what to do next, without repeating what was said.
func (r *Report) say(about advice, w words) {
	r.Verdict = appendNew(r.Verdict, w.fill(about.says))
	for _, next := range about.next {
		if !w.lacks(next) {
			r.Next = appendNew(r.Next, w.fill(next))
		}
	}
}

func appendNew(list []string, text string) []string {
	if text == "" || slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// machineWords are the values the advice may need. A word nothing is known of stands for itself, in capitals, except for
// objects that are not there: advice about them is left out.
func machineWords(s *facts.Snapshot, command string) words {
	m := s.Machine
	credential := m.Credential()
	w := words{
		"cmd": command, "name": m.Name, "ns": m.Namespace, "podns": m.Namespace, "kind": m.Kind.Name, "uid": string(m.UID),
		"plural":   m.Kind.Resource,
		"resource": m.Kind.Resource + "." + rkev1.MachineGroupVersion.Group,
		"template": strings.ToLower(m.Kind.Name) + "templates." + rkev1.MachineGroupVersion.Group,
		"capi":     m.CAPIMachineName(), "cluster": m.ClusterName(), "driver": driverName(s), "job": m.Status.JobName,
		"credentialns": credential.Namespace, "credentialname": credential.Name, "credential": credential.Name,
		"instance": m.Status.InstanceName, "bootstrap": "", "pod": "", "node": "",
		"state": jobrunner.StateSecretName(m.Name), "itself": "",
	}
	w[whereWord] = "a new machine template"
	if m.Annotations[clusterv1.TemplateClonedFromNameAnnotation] == "" {
		w["template"], w["itself"], w[whereWord] = "", w["resource"], "the machine itself"
	}
	if credential.Name == "" {
		w["credentialns"] = m.Namespace
	}
	if inFallback(m) {
		w["podns"] = fallbackNamespace
	}
	if credential.IsForeign() {
		w["credential"] = credential.String()
	}
	if s.State != nil && s.State.Name != "" {
		w["state"] = s.State.Name
	}
	if capi := s.CAPIMachine; capi != nil {
		w["capi"], w["cluster"] = capi.Name, cmp.Or(m.ClusterName(), capi.Spec.ClusterName)
		w["bootstrap"] = ptr.Deref(capi.Spec.Bootstrap.DataSecretName, "")
	}
	if w["instance"] == "" {
		w["instance"] = m.Name
	}
	for name, value := range w {
		if value == "" && !slices.Contains(objectWords, name) {
			w[name] = strings.ToUpper(name)
		}
	}
	return w
}

func age(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	// The clock of whoever asks may be behind that of the cluster.
	return duration.HumanDuration(max(now.Sub(then), 0))
}
