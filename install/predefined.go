package install

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

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
	for _, nd := range driver.Predefined() {
		for ctx.Err() == nil {
			_, err := applier.Create(ctx, nd.DeepCopy())
			if err == nil {
				break
			}
			log.FromContext(ctx).Error(err, "Creating a predefined NodeDriver", "nodeDriver", nd.Name)
			pause(ctx, retryDelay)
		}
	}
	return nil
}

func pause(ctx context.Context, delay time.Duration) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
