package explain

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/jobrunner"
)

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
	if s.CAPIMachine != nil && s.CAPIMachine.Spec.Bootstrap.DataSecretName != nil {
		w["bootstrap"] = *s.CAPIMachine.Spec.Bootstrap.DataSecretName
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
