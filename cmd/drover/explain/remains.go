package explain

import (
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/state"
)

// Remains is what may be left at the cloud when a machine is given up, as lines under a heading. State may be nil when it could not be read.
func Remains(m *facts.Machine, st *facts.State) string {
	cloud := clouds.Of(facts.DriverName(m.Kind.Name, nil))
	text := fmt.Sprintf("What may remain of %s at the cloud, and must then be removed there by hand:\n", m.Name)
	if cloud.TakesHosts() {
		text = fmt.Sprintf("What may remain of %s on its host, and must then be removed there by hand, as docs/drivers.md tells:\n", m.Name)
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
		return text + "  nothing more is known: the state Secret is missing or cannot be read\n"
	}
	if st.Server != nil && st.Server.InstanceID != "" {
		add("instance id", st.Server.InstanceID)
	} else if st.Result != nil {
		add("the driver recorded", st.Result.Recorded)
	}
	add("how far it came:", came(st))
	return text
}

// came is what the journal says, in words.
func came(st *facts.State) string {
	switch {
	case st.Journal != nil:
	case st.IsTakenOver():
		return "unknown; there is a record of a server"
	case st.ServerMayExist:
		return "unknown; the state cannot be read"
	default:
		return "nothing was ever asked of the cloud"
	}
	meaning := map[state.Phase]string{
		state.PhaseIntent:       "the cloud was asked for a server; whether it made one is not known",
		state.PhaseRecorded:     "the driver recorded a server",
		state.PhaseCreated:      "the server was made",
		state.PhaseBootstrapped: "the server was made and bootstrapped",
		state.PhaseRemoving:     "removing was begun",
		state.PhaseGone:         "no server exists any more",
		state.PhaseLost:         "what was known of a server was lost",
	}
	attempt := fmt.Sprintf("attempt %d", st.Journal.Attempt)
	if st.Journal.Operation != "" {
		attempt += " to " + string(st.Journal.Operation)
	}
	return fmt.Sprintf("%s (%s, %s)", meaning[st.Journal.Phase], st.Journal.Phase, attempt)
}
