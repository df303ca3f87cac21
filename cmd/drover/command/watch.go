package command

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// watching is a get that goes on.
type watching struct {
	api     *inventory.API
	kinds   []facts.Kind
	list    inventory.ListOptions
	options *getOptions
	drivers []v3.NodeDriver
	// printed are the machines the list at the start has shown.
	printed []*facts.Machine
}

// watch prints machines as they change, until the context ends.
func (e *env) watch(ctx context.Context, w *watching) error {
	if len(w.kinds) == 0 {
		return fmt.Errorf("nothing to watch: no driver is active in this cluster (see '%s get drivers')", e.Name)
	}
	versions := map[types.UID]string{}
	for _, m := range w.printed {
		versions[m.UID] = m.ResourceVersion
	}
	changes, err := w.api.Watch(ctx, w.kinds, w.list)
	if err != nil {
		return err
	}
	for change := range changes {
		m := change.Machine
		if versions[m.UID] == m.ResourceVersion && !change.Deleted {
			continue
		}
		versions[m.UID] = m.ResourceVersion
		if selected, _ := selectNamed([]*facts.Machine{m}, w.options.names); len(selected) == 0 {
			continue
		}
		if err := e.printChange(w, change); err != nil {
			return err
		}
	}
	return nil
}

func (e *env) printChange(w *watching, change inventory.Change) error {
	m := listing.NewMachine(change.Machine, w.drivers)
	if change.Deleted {
		m.Phase, m.Reason, m.Message = "Deleted", "", ""
	}
	switch out := w.options.output; {
	case out.format() == "name":
		return e.printNames([]listing.Machine{m})
	case out.isTable():
		return out.table(e.Streams.Out, listing.MachineTable([]listing.Machine{m}, w.options.allNamespaces, e.Now()))
	}
	return e.printEach(w.options, []listing.Machine{m})
}
