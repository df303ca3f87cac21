package explain

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/advice"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/jobrunner"
)

// own is advice that no condition can carry: the manager does not run, or cannot observe the cause.
type own struct {
	// says completes the verdict: one sentence.
	says string
	// next lists the next steps, best first; may be empty.
	next []string
}

const (
	nextManager = "Check whether Drover's manager runs, and read its log: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager"
	nextCAPI    = "See what Cluster API waits for: kubectl -n {ns} describe machine.cluster.x-k8s.io {capi}"
	nextPod     = "Look at the pod: kubectl -n {podns} describe pod {pod}"
)

// advise adds advice to the verdict and to the next steps; duplicates are dropped.
func (r *Report) advise(about own, w advice.Words) {
	for _, says := range w.Fill(about.says) {
		r.Verdict = appendNew(r.Verdict, says)
	}
	for _, next := range w.Fill(about.next...) {
		r.Next = appendNew(r.Next, next)
	}
}

// block sets the blocker and replaces the verdict and the next steps.
func (r *Report) block(reason, verdict string, next ...string) {
	r.Blocker, r.Verdict, r.Next = &Blocker{Reason: reason}, []string{verdict}, next
}

// hold sets the blocker and adds to the verdict and the next steps.
func (r *Report) hold(reason string, about own, w advice.Words) {
	r.Blocker = &Blocker{Reason: reason}
	r.advise(about, w)
}

// blockAt says that a step holds the subject up.
func (r *Report) blockAt(step *Step) {
	r.Blocker = step.blocker()
	r.addStep(step)
}

// addStep adds the message of a condition, and its next steps.
func (r *Report) addStep(step *Step) {
	r.Verdict = appendNew(r.Verdict, cmp.Or(step.Message, "The step "+step.Name+" is not done: "+step.Reason+"."))
	r.Next = append(r.Next, step.next...)
	r.told = append(r.told, step.Reason)
}

func appendNew(list []string, text string) []string {
	if text == "" || slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// appendCommand adds a next step unless its command is listed already: several problems may have
// the same fix.
func appendCommand(list []string, text string) []string {
	at := called.FindStringIndex(text)
	if at != nil && slices.ContainsFunc(list, func(there string) bool { return strings.HasSuffix(there, text[at[0]:]) }) {
		return list
	}
	return appendNew(list, text)
}

// called finds the programs in advice: a command begins after a colon or a semicolon.
var called = regexp.MustCompile(`([:;] )(kubectl|drover) `)

// reach has the commands of an advice reach the cluster that this call of the CLI is for, which is
// called as command says: an advice may be to delete something.
func reach(text, command string) string {
	return called.ReplaceAllStringFunc(text, func(found string) string {
		parts := called.FindStringSubmatch(found)
		if parts[2] == "drover" {
			return parts[1] + command + " "
		}
		return parts[1] + facts.Kubectl(command) + " "
	})
}

// withoutLogin leaves out the advice to log in where no key is kept, and says instead how to look
// at the server.
func (d *decision) withoutLogin() {
	if d.State == nil || d.State.Name != "" && !d.State.NoKey {
		return
	}
	login := func(next string) bool { return strings.Contains(next, ": drover ssh ") }
	if at := slices.IndexFunc(d.Next, login); at >= 0 {
		d.Next[at] = "Drover keeps no SSH key for this server. Look at the server's console in the cloud, or log in with your own key"
		d.Next = slices.DeleteFunc(d.Next, login)
	}
}

// about returns the values of the machine that advice may contain.
func about(s *facts.Snapshot) advice.Machine {
	m, credential := s.Machine, s.Machine.Credential()
	a := advice.Machine{Namespace: m.Namespace, Name: m.Name, UID: string(m.UID), Kind: m.Kind.Name, Driver: driverName(s), CAPIMachine: m.CAPIMachineName(), Cluster: m.ClusterName(),
		CredentialNamespace: credential.Namespace, CredentialName: credential.Name, Credential: credential.Name, Instance: m.Status.InstanceName, Job: m.Status.JobName,
		State: jobrunner.StateSecretName(m.Name), Cloned: m.Annotations[clusterv1.TemplateClonedFromNameAnnotation] != "", Deleting: m.DeletionTimestamp != nil}
	if m.Labels[rkev1.ClusterNameLabel] == a.Cluster && a.Cluster != "" {
		a.Pool = m.Labels[rkev1.MachinePoolLabel]
	}
	if s.Driver != nil {
		a.NodeDriver = s.Driver.Name
	}
	if credential.IsForeign() {
		a.Credential = credential.String()
	}
	if inFallback(m) {
		a.JobNamespace = fallbackNamespace
	}
	if s.State != nil && s.State.Name != "" {
		a.State = s.State.Name
	}
	if capi := s.CAPIMachine; capi != nil {
		a.CAPIMachine, a.Cluster = capi.Name, cmp.Or(m.ClusterName(), capi.Spec.ClusterName)
		a.Bootstrap = ptr.Deref(capi.Spec.Bootstrap.DataSecretName, "")
	}
	return a
}
