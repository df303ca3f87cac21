package explain

import (
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/state"
)

// Remains lists the objects that may remain in the cloud when a machine is given up, as lines under
// a heading. State may be nil if it could not be read.
func Remains(m *facts.Machine, st *facts.State) string {
	cloud := clouds.Of(facts.DriverName(m.Kind.Name, nil))
	text := fmt.Sprintf("These resources of %s may remain in the cloud. Remove them there by hand:\n", m.Name)
	if cloud.TakesHosts() {
		text = fmt.Sprintf("These parts of %s may remain on its host. Remove them there by hand, as docs/drivers.md describes:\n", m.Name)
	}
	add := func(name, value string) {
		if value != "" {
			text += "  " + facts.Clean(name+" "+value) + "\n"
		}
	}
	add("driver", facts.DriverName(m.Kind.Name, nil))
	add("server called", m.Status.InstanceName)
	add("providerID", m.Spec.ProviderID)
	for _, address := range m.Status.Addresses {
		add(string(address.Type), address.Address)
	}
	add("beside it:", cloud.Beside)
	add("leftovers:", cloud.Leftovers)
	if ptr.Deref(st, facts.State{}).Name == "" {
		return text + "  nothing else is known, because the state Secret is missing or cannot be read\n"
	}
	if st.Server != nil && st.Server.InstanceID != "" {
		add("instance id", st.Server.InstanceID)
	} else if st.Result != nil {
		add("the driver recorded", st.Result.Recorded)
	}
	add("progress:", came(st))
	return text
}

// came describes the journal in words.
func came(st *facts.State) string {
	switch {
	case st.Journal != nil:
	case st.IsTakenOver():
		return "unknown; there is a record of a server"
	case st.ServerMayExist:
		return "unknown; the state cannot be read"
	default:
		return "Drover never sent a request to the cloud"
	}
	meaning := map[state.Phase]string{
		state.PhaseIntent:       "Drover requested a server; it is not known whether the cloud created one",
		state.PhaseRecorded:     "the driver recorded a server",
		state.PhaseCreated:      "the server was created",
		state.PhaseBootstrapped: "the server was created and bootstrapped",
		state.PhaseRemoving:     "the removal was started",
		state.PhaseGone:         "the server does not exist any more",
		state.PhaseLost:         "the record of a server was lost",
	}
	attempt := fmt.Sprintf("attempt %d", st.Journal.Attempt)
	if st.Journal.Operation != "" {
		attempt += " to " + string(st.Journal.Operation)
	}
	return fmt.Sprintf("%s (%s, %s)", meaning[st.Journal.Phase], st.Journal.Phase, attempt)
}
