package explain

import (
	"fmt"
	"strings"

	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/jobrunner"
)

// Remains is what may be left at the cloud when a machine is given up. State may be nil when it could not be read.
func Remains(m *facts.Machine, state *facts.State) []string {
	var list []string
	add := func(name, value string) {
		if value != "" {
			list = append(list, clean(name+" "+value))
		}
	}
	add("driver", facts.DriverName(m.Kind.Name, nil))
	add("server called", m.Status.InstanceName)
	add("providerID", m.Spec.ProviderID)
	for _, address := range m.Status.Addresses {
		add(string(address.Type), address.Address)
	}
	if state == nil || state.Name == "" {
		return append(list, "nothing more is known: the state Secret is missing or cannot be read")
	}
	if state.Server != nil {
		add("instance id", state.Server.InstanceID)
	}
	return append(list, clean("how far it came: "+came(state)))
}

// came is what the journal says, in words.
func came(state *facts.State) string {
	switch {
	case state.Journal != nil:
	case state.IsTakenOver():
		return "unknown; there is a record of a server"
	case state.ServerMayExist:
		return "unknown; the state cannot be read"
	default:
		return "nothing was ever asked of the cloud"
	}
	meaning := map[jobrunner.JournalPhase]string{
		jobrunner.PhaseIntent:       "the cloud was asked for a server; whether it made one is not known",
		jobrunner.PhaseRecorded:     "the driver recorded a server",
		jobrunner.PhaseCreated:      "the server was made",
		jobrunner.PhaseBootstrapped: "the server was made and bootstrapped",
		jobrunner.PhaseRemoving:     "removing was begun",
		jobrunner.PhaseGone:         "no server exists any more",
	}
	attempt := fmt.Sprintf("attempt %d", state.Journal.Attempt)
	if state.Journal.Operation != "" {
		attempt += " to " + string(state.Journal.Operation)
	}
	return fmt.Sprintf("%s (%s, %s)", meaning[state.Journal.Phase], state.Journal.Phase, attempt)
}

// RemainsText is Remains as lines under a heading.
func RemainsText(m *facts.Machine, state *facts.State) string {
	return fmt.Sprintf("What may remain of %s at the cloud, and must then be removed there by hand:\n  %s\n", m.Name, strings.Join(Remains(m, state), "\n  "))
}
