package explain_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/cmd/drover/explain"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/state"
)

func TestRemains(t *testing.T) {
	at := func(phase state.Phase) *facts.State {
		return &facts.State{Name: "s", ServerMayExist: phase != state.PhaseGone, Journal: &state.Journal{Operation: state.Create, Attempt: 2, Phase: phase}}
	}
	for name, c := range map[string]struct {
		state *facts.State
		want  string
	}{
		"not read":      {nil, "nothing else is known, because the state Secret is missing or cannot be read"},
		"missing":       {&facts.State{}, "nothing else is known, because the state Secret is missing or cannot be read"},
		"never begun":   {&facts.State{Name: "s"}, "progress: Drover never sent a request to the cloud"},
		"unreadable":    {&facts.State{Name: "s", ServerMayExist: true, Problems: []string{"bad"}}, "progress: unknown; the state cannot be read"},
		"another's":     {&facts.State{Name: "s", ServerMayExist: true}, "progress: unknown; there is a record of a server"},
		"intent":        {at(state.PhaseIntent), "progress: Drover requested a server; it is not known whether the cloud created one (Intent, attempt 2 to create)"},
		"recorded":      {at(state.PhaseRecorded), "progress: the driver recorded a server (Recorded, attempt 2 to create)"},
		"created":       {at(state.PhaseCreated), "progress: the server was created (Created, attempt 2 to create)"},
		"bootstrapped":  {at(state.PhaseBootstrapped), "progress: the server was created and bootstrapped (Bootstrapped, attempt 2 to create)"},
		"being removed": {at(state.PhaseRemoving), "progress: the removal was started (Removing, attempt 2 to create)"},
		"by nobody":     {&facts.State{Name: "s", Journal: &state.Journal{Attempt: 1, Phase: state.PhaseGone}}, "progress: the server does not exist any more (Gone, attempt 1)"},
		"gone":          {at(state.PhaseGone), "progress: the server does not exist any more (Gone, attempt 2 to create)"},
	} {
		t.Run(name, func(t *testing.T) {
			_, lines, _ := strings.Cut(explain.Remains(machine().Machine, c.state), "\n")
			require.Equal(t, "  driver digitalocean\n  server called web-1\n  beside it: its SSH key\n  "+c.want+"\n", lines)
		})
	}
}

func TestRemains_whole(t *testing.T) {
	s := running()
	s.Machine.Status.Addresses = append(s.Machine.Status.Addresses, clusterv1.MachineAddress{Type: "Odd\x1b[31m", Address: "\x1b]0;x\x07198.18.0.12"}, clusterv1.MachineAddress{Type: "InternalIP"})
	require.Equal(t, `These resources of web-1 may remain in the cloud. Remove them there by hand:
  driver digitalocean
  server called web-1
  providerID digitalocean://4711
  ExternalIP 198.18.0.11
  Odd 198.18.0.12
  beside it: its SSH key
  instance id 4711
  progress: the server was created and bootstrapped (Bootstrapped, attempt 1 to create)
`, explain.Remains(s.Machine, s.State))
	s.State.Server.InstanceID, s.State.Result = "", &state.Result{Recorded: "ServerID srv-1"}
	require.Contains(t, explain.Remains(s.Machine, s.State), "\n  the driver recorded ServerID srv-1\n")
	host := machine().Machine
	host.Kind.Name = "GenericMachine"
	require.Contains(t, explain.Remains(host, nil), "These parts of web-1 may remain on its host. Remove them there by hand, as docs/drivers.md describes:\n  driver generic\n")
	require.Contains(t, explain.Remains(host, nil), "\n  leftovers: A host that was given up joins its cluster again")
	s.State.Journal.Operation = "create\x1b]0;x\x07\n\u202eit"
	require.True(t, strings.HasSuffix(explain.Remains(s.Machine, s.State), "(Bootstrapped, attempt 1 to create it)\n"), "one line, which no terminal obeys")
}
