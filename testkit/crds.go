package testkit

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/retry"
)

// establishTimeout is far more than the server ever takes.
const establishTimeout = 30 * time.Second

// ApplyCRDs makes or updates definitions and returns when the server serves them.
func ApplyCRDs(tb testing.TB, crds ...*apiextensionsv1.CustomResourceDefinition) {
	tb.Helper()
	require.NoError(tb, applyCRDs(tb.Context(), Config(tb), crds))
}

func applyCRDs(ctx context.Context, config *rest.Config, crds []*apiextensionsv1.CustomResourceDefinition) error {
	clients, err := apiextensions.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client of discovery: %w", err)
	}
	definitions := clients.CustomResourceDefinitions()
	for _, crd := range crds {
		if err := applyCRD(ctx, definitions, crd); err != nil {
			return fmt.Errorf("applying definition %s: %w", crd.Name, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, establishTimeout)
	defer cancel()
	for _, crd := range crds {
		if err := awaitEstablished(ctx, definitions, crd.Name); err != nil {
			return fmt.Errorf("waiting for definition %s: %w", crd.Name, err)
		}
		if err := awaitDiscovered(ctx, server, crd); err != nil {
			return fmt.Errorf("waiting for discovery of definition %s: %w", crd.Name, err)
		}
	}
	return nil
}

// awaitDiscovered waits until clients that ask which kinds there are hear of this one, which is a moment after it is established.
func awaitDiscovered(ctx context.Context, server discovery.ServerResourcesInterface, crd *apiextensionsv1.CustomResourceDefinition) error {
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		for _, version := range crd.Spec.Versions {
			if !version.Served {
				continue
			}
			list, err := server.ServerResourcesForGroupVersion(crd.Spec.Group + "/" + version.Name)
			if err != nil || !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == crd.Spec.Names.Plural }) {
				return false, nil //nolint:nilerr // an API that is not discovered yet is an error, too
			}
		}
		return true, nil
	})
}

func applyCRD(ctx context.Context, definitions apiextensions.CustomResourceDefinitionInterface, crd *apiextensionsv1.CustomResourceDefinition) error {
	_, err := definitions.Create(ctx, crd, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error { // the API server writes its status
		live, err := definitions.Get(ctx, crd.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		update := crd.DeepCopy()
		update.ResourceVersion = live.ResourceVersion
		_, err = definitions.Update(ctx, update, metav1.UpdateOptions{})
		return err
	})
}

func awaitEstablished(ctx context.Context, definitions apiextensions.CustomResourceDefinitionInterface, name string) error {
	live, err := definitions.Get(ctx, name, metav1.GetOptions{})
	if err != nil || apihelpers.IsCRDConditionTrue(live, apiextensionsv1.Established) {
		return err
	}
	changes, err := definitions.Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(),
		ResourceVersion: live.ResourceVersion,
	})
	if err != nil {
		return err
	}
	_, err = watchtools.UntilWithoutRetry(ctx, changes, func(e watch.Event) (bool, error) {
		crd, ok := e.Object.(*apiextensionsv1.CustomResourceDefinition)
		return ok && apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established), nil
	})
	return err
}
