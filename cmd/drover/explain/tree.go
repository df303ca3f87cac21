package explain

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/cmd/drover/facts"
)

// branch is a line of a tree and the lines below it.
type branch struct {
	text  string
	below []*branch
}

func (b *branch) add(format string, args ...any) *branch {
	child := &branch{text: fmt.Sprintf(format, args...)}
	b.below = append(b.below, child)
	return child
}

// addFinding adds the cause and the next step.
func (b *branch) addFinding(f *Finding) {
	if f == nil {
		return
	}
	b.add("cause: %s", f.Cause)
	if f.Next != "" {
		b.add("next: %s", f.Next)
	}
}

// render writes the lines below a branch. Prose is wrapped, commands are not.
func (b *branch) render(out *strings.Builder, indent string) {
	for i, child := range b.below {
		line, next := "├─ ", "│  "
		if i == len(b.below)-1 {
			line, next = "└─ ", "   "
		}
		rest := next
		if len(child.below) > 0 {
			rest += "│  "
		}
		if text := indent + line + child.text; utf8.RuneCountInString(text) <= width {
			fmt.Fprintln(out, text)
		} else {
			wrap(out, indent+line, indent+rest, child.text)
		}
		child.render(out, indent+next)
	}
}

// RenderTree writes a Description as a tree.
func RenderTree(w io.Writer, d *Description) error {
	root := &branch{}
	for _, step := range d.Steps {
		line := root.add("%s", strings.Join(nonEmpty(string(step.State), step.Name, step.Reason, facts.Age(d.now, ptr.Deref(step.Since, time.Time{}))), "  "))
		if step.State != StepDone && step.Message != "" && !repeats(d, step) {
			line.add("%s", step.Message)
		}
	}
	root.addFinding(d.Finding)
	for _, warning := range d.Warnings {
		root.add("warning: %s", warning)
	}
	for i := range d.Pools {
		addPool(root, &d.Pools[i])
	}
	for i := range d.Machines {
		addMachine(root, &d.Machines[i])
	}
	for _, problem := range d.Problems {
		root.add("could not be read: %s", problem)
	}
	var out strings.Builder
	fmt.Fprintln(&out, strings.Join(nonEmpty("Cluster "+d.Namespace+"/"+d.Name+" (provisioning.cattle.io)", d.Phase, d.Version), "  "))
	root.render(&out, "")
	_, err := io.WriteString(w, out.String())
	return err
}

// repeats reports whether the message of a step is shown elsewhere: in the finding or in an earlier
// step.
func repeats(d *Description, step Step) bool {
	if d.Finding != nil && strings.Contains(d.Finding.Cause, step.Message) {
		return true
	}
	for _, earlier := range d.Steps {
		if earlier.Name == step.Name {
			return false
		}
		if earlier.Message == step.Message && earlier.State != StepDone {
			return true
		}
	}
	return false
}

func addPool(root *branch, p *PoolDescription) {
	title := "Pool " + p.Name
	if len(p.Roles) > 0 {
		title += " (" + strings.Join(p.Roles, ", ") + ")"
	}
	if p.Removed {
		title += ", removed from the specification"
	}
	pool := root.add("%s: %d wanted, %d made, %d ready, %d up to date", title, p.Wanted, p.Made, p.Ready, p.UpToDate)
	if pending := p.Pending; pending != nil {
		pool.add("replacement pending: %s (%s)", counted(int(pending.Machines)), strings.Join(pending.Changes, ", "))
	}
	pool.addFinding(p.Finding)
	for i := range p.Machines {
		addMachine(pool, &p.Machines[i])
	}
}

func addMachine(parent *branch, m *MachineDescription) {
	machine := parent.add("%s", strings.Join(nonEmpty("Machine "+m.Name, m.State), "  "))
	if m.Ref != "" {
		machine.add("%s", strings.Join(nonEmpty(m.Ref, m.Phase, m.ProviderID, m.Address), "  "))
	}
	if m.Job != nil {
		machine.add("Job %s  %s", m.Job.Name, m.Job.State)
	}
	if m.Node != nil {
		machine.add("Node %s  %s", m.Node.Name, m.Node.State)
	}
	if m.Step != nil {
		machine.add("step: %s", strings.Join(nonEmpty(m.Step.Name, cmp.Or(m.Step.Reason, "not done yet")), "  "))
	}
	machine.addFinding(m.Finding)
}

func nonEmpty(texts ...string) []string {
	var all []string
	for _, text := range texts {
		if text != "" {
			all = append(all, text)
		}
	}
	return all
}
