package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// scaleAttempts bounds how often a write is repeated that lost against another one.
const scaleAttempts = 10

// Scale sets the number of machines of pools of a provisioning Cluster, in one write. If another
// write comes between, Scale reads the Cluster again and repeats its own, unless the other changed
// the number of machines of the same pools.
func (a *API) Scale(ctx context.Context, namespace, name string, wanted []facts.Quantity, dryRun bool) ([]facts.QuantityChange, error) {
	options := metav1.UpdateOptions{FieldManager: fieldManager}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	var first []facts.QuantityChange
	for range scaleAttempts {
		u, err := a.object(ctx, provisioned, namespace, name)
		switch {
		case err != nil:
			return nil, err
		case u == nil:
			return nil, fmt.Errorf("the Cluster %s is gone", name)
		case u.GetDeletionTimestamp() != nil:
			return nil, fmt.Errorf("the Cluster %s is being deleted", name)
		}
		changes, err := facts.SetQuantities(u.Object, wanted)
		if err != nil {
			return nil, err
		}
		for i, change := range first {
			if changes[i].From != change.From {
				return nil, fmt.Errorf("pool %s was scaled from %d to %d machines in the meantime; nothing was changed", change.Pool, change.From, changes[i].From)
			}
		}
		if !slices.ContainsFunc(changes, func(c facts.QuantityChange) bool { return c.From != c.To }) {
			return changes, nil
		}
		first = changes
		_, err = a.Dynamic.Resource(provisioned).Namespace(namespace).Update(ctx, u, options)
		if err == nil {
			return changes, nil
		}
		if !apierrors.IsConflict(err) {
			return nil, fmt.Errorf("scaling the Cluster %s: %w", name, err)
		}
	}
	return nil, errors.New("scaling the Cluster " + name + ": other writes changed it each time; try again")
}

// DeleteCluster requests the deletion of a provisioning Cluster. The Cluster must still be the one
// that was read, not another of its name.
func (a *API) DeleteCluster(ctx context.Context, cluster *provv1.Cluster) error {
	err := a.Dynamic.Resource(provisioned).Namespace(cluster.Namespace).Delete(ctx, cluster.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(cluster.UID))})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return fmt.Errorf("the Cluster %s was deleted and created again in the meantime; nothing was deleted", cluster.Name)
	case err != nil:
		return fmt.Errorf("deleting the Cluster %s: %w", cluster.Name, err)
	}
	return nil
}
