package command

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// said and denied are what was told of kinds that could not be watched.
	said   string
	denied map[string]bool
}

// watch prints machines as they change, until the context ends.
func (e *env) watch(ctx context.Context, w *watching) error {
	if len(w.kinds) == 0 {
		return fmt.Errorf("nothing to watch: no driver is active in this cluster (see '%s get drivers')", e.Name)
	}
	w.denied = map[string]bool{}
	versions := map[types.UID]string{}
	for _, m := range w.printed {
		versions[m.UID] = m.ResourceVersion
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	changes, err := w.api.Watch(ctx, w.kinds, w.list)
	if err != nil {
		return err
	}
	for change := range changes {
		if change.Err != nil {
			if err := e.watchFailed(w, change.Err); err != nil {
				return err
			}
			continue
		}
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

// watchFailed tells, once, that a kind cannot be watched for now. It is an error when no kind may be.
func (e *env) watchFailed(w *watching, err error) error {
	text := inventory.Plain(err)
	if apierrors.IsForbidden(err) {
		w.denied[text] = true
		if len(w.denied) == len(w.kinds) {
			return err
		}
	}
	if w.said != text {
		e.note("%s", text)
	}
	w.said = text
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
