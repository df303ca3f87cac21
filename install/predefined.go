package install

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/driver"
)

// Predefined creates the predefined NodeDrivers when the manager leads. What a user changed stays.
type Predefined struct {
	// Client creates; Reader reads.
	Client client.Client
	Reader client.Reader
}

// retryDelay is how long to wait after a NodeDriver could not be created: our own webhook may not answer yet.
const retryDelay = 2 * time.Second

// NeedLeaderElection says that one replica is enough.
func (p *Predefined) NeedLeaderElection() bool { return true }

// Start creates what is missing and ends.
func (p *Predefined) Start(ctx context.Context) error {
	applier := apply.Applier{Client: p.Client, Reader: p.Reader, Owner: FieldOwner}
	missing := driver.Predefined()
	for len(missing) > 0 && ctx.Err() == nil {
		missing = p.create(ctx, applier, missing)
		if len(missing) > 0 {
			pause(ctx, retryDelay)
		}
	}
	return nil
}

// create returns those that could not be created; one that is refused does not stand in the way of the others.
func (p *Predefined) create(ctx context.Context, applier apply.Applier, drivers []v3.NodeDriver) []v3.NodeDriver {
	var missing []v3.NodeDriver
	for _, nd := range drivers {
		if _, err := applier.Create(ctx, nd.DeepCopy()); err != nil {
			log.FromContext(ctx).Error(err, "Creating a predefined NodeDriver", "nodeDriver", nd.Name)
			missing = append(missing, nd)
		}
	}
	return missing
}

func pause(ctx context.Context, delay time.Duration) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
