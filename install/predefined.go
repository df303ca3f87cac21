package install

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/driver"
)

// Predefined creates the predefined NodeDrivers when the manager leads. It keeps users' changes.
type Predefined struct {
	// Client creates; Reader reads.
	Client client.Client
	Reader client.Reader
}

// retryDelay is how long to wait after a NodeDriver could not be created: our own webhook may not
// answer yet.
const retryDelay = 2 * time.Second

// NeedLeaderElection returns true: one replica is enough.
func (p *Predefined) NeedLeaderElection() bool { return true }

// Start creates the missing NodeDrivers and ends.
func (p *Predefined) Start(ctx context.Context) error {
	applier := apply.Applier{Client: p.Client, Reader: p.Reader, Owner: FieldOwner}
	missing := driver.Predefined()
	for ctx.Err() == nil {
		// One that is refused does not stand in the way of the others.
		missing = slices.DeleteFunc(missing, func(nd v3.NodeDriver) bool {
			_, err := applier.Create(ctx, nd.DeepCopy())
			if err != nil {
				log.FromContext(ctx).Error(err, "Creating a predefined NodeDriver", "nodeDriver", nd.Name)
			}
			return err == nil
		})
		if len(missing) == 0 {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryDelay):
		}
	}
	return nil
}
