package forecast

import (
	"fmt"
	"io"
	"strings"

	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/planner"
	"github.com/drover-project/drover/provisioning"
)

// Render writes a plan for people. command is how the program is called.
func Render(w io.Writer, p *Plan, command string) error {
	out := &writer{}
	state := ""
	if p.Created {
		state = " does not exist yet"
	}
	out.line("Cluster %s/%s (provisioning.cattle.io)%s", p.Namespace, p.Name, state)
	if p.Paused {
		out.line("The Cluster is paused. These changes wait until the pause ends.")
	}
	for _, pool := range p.Pools {
		out.item("Machines", pool.sentence())
	}
	for _, effect := range p.Configuration {
		out.item("Configuration", effect.Field+": "+outcome(effect))
	}
	if p.Unknown != "" {
		out.item("Configuration", sentence("the effects are not known: "+p.Unknown))
	}
	for _, turn := range p.Turns {
		out.item("Order of restarts", turn.sentence())
	}
	for _, change := range p.Settings {
		out.item("Other fields", change.Field+": "+reaches[change.Reaches])
	}
	for _, held := range p.Held {
		text := held.Reason + ": " + held.Message
		if held.Pool != "" {
			text = "pool " + held.Pool + ": " + text
		}
		out.item("Held back", sentence(text)+" "+held.Next)
	}
	if pending := p.PendingReplacement; pending != nil {
		out.item("Approval", fmt.Sprintf("To allow these replacements: %s plan cluster/%s -n %s --approve (ID %s)", command, facts.Word(p.Name), p.Namespace, pending.ID))
	}
	for _, field := range p.NotActedOn {
		out.item("Fields without an effect", field)
	}
	out.admission(p.Admission)
	for _, note := range p.Notes {
		out.item("Notes", sentence(note))
	}
	if p.Change == None {
		out.line("")
		out.line("Nothing changes.")
	}
	_, err := io.WriteString(w, out.text.String())
	return err
}

// writer collects sections.
type writer struct {
	text    strings.Builder
	section string
}

func (w *writer) line(format string, args ...any) {
	w.text.WriteString(facts.Clean(fmt.Sprintf(format, args...)) + "\n")
}

// item writes a line of a section, and its heading before the first.
func (w *writer) item(section, text string) {
	if w.section != section {
		w.section = section
		w.text.WriteString("\n" + section + "\n")
	}
	w.text.WriteString("  " + facts.Clean(text) + "\n")
}

func (w *writer) admission(a Admission) {
	const section = "Admission"
	switch {
	case !a.Checked && a.NotChecked == "":
	case !a.Checked:
		w.item(section, sentence("not checked: "+a.NotChecked))
	case a.Rejected != "":
		w.item(section, sentence("rejected: "+a.Rejected))
	default:
		w.item(section, "The API server accepts the change.")
	}
	for _, warning := range a.Warnings {
		w.item(section, sentence("warning: "+warning))
	}
}

// sentence describes what happens to a pool.
func (p Pool) sentence() string {
	text := sentence(p.text)
	if p.Replaced > 0 {
		text += fmt.Sprintf(" During the replacement, the pool has at most %s machines more and %s fewer.", p.Surge, p.Unavailable)
	}
	return text
}

// outcome describes the effect of a field of the configuration.
func outcome(e planner.Effect) string {
	var parts []string
	if e.Unknown != "" {
		return sentence("the effect of this field alone is not known: " + e.Unknown)
	}
	if len(e.Restarted) > 0 {
		parts = append(parts, "restarts "+machines(e.Restarted))
	}
	if len(e.Updated) > 0 {
		parts = append(parts, "changes files without a restart on "+machines(e.Updated))
	}
	if len(parts) == 0 {
		return "changes no machine."
	}
	return strings.Join(parts, "; ") + "."
}

func (t Turn) sentence() string {
	switch {
	case t.Machines == "server":
		return "The server."
	case t.AtATime == "0":
		return "Then the workers, all at the same time."
	}
	return "Then the workers, at most " + t.AtATime + " at a time."
}

// reaches describes how a changed field reaches machines.
var reaches = map[string]string{
	provisioning.ReachesMachines:    "reaches existing machines. None is replaced or restarted.",
	provisioning.ReachesNewMachines: "only machines that are created from now on have it.",
	provisioning.ReachesSettings:    "changes no machine now.",
}
