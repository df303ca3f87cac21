package apply

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NotAccepted gives the reason why the API server does not take the names of crd, or "".
func NotAccepted(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.NamesAccepted && condition.Status == apiextensionsv1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}

// AwaitEstablished watches until the CRDs of these names are served, or the context ends.
func AwaitEstablished(ctx context.Context, c client.WithWatch, names ...string) error {
	for _, name := range names {
		refusal := ""
		for done := false; !done; {
			var err error
			done, err = watchEstablished(ctx, c, name, &refusal)
			if err != nil && refusal != "" {
				err = fmt.Errorf("%w: its names are not accepted: %s", err, refusal)
			}
			if err != nil {
				return fmt.Errorf("waiting for CRD %s to be established: %w", name, err)
			}
		}
	}
	return nil
}

// watchEstablished returns false without an error when the server ended the watch, as it does now and then; refusal becomes
// what the server last said against the names.
func watchEstablished(ctx context.Context, c client.WithWatch, name string, refusal *string) (bool, error) {
	watcher, err := c.Watch(ctx, &apiextensionsv1.CustomResourceDefinitionList{},
		&client.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name)})
	if err != nil {
		return false, err
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case event, ok := <-watcher.ResultChan():
			if !ok {
				return false, ctx.Err()
			}
			crd, isCRD := event.Object.(*apiextensionsv1.CustomResourceDefinition)
			if !isCRD || event.Type == watch.Deleted {
				continue
			}
			if apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
				return true, nil
			}
			*refusal = NotAccepted(crd)
		}
	}
}
