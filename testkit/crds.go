package testkit

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
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
		// A definition is discovered a moment after it is established.
		err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
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
		if err != nil {
			return fmt.Errorf("waiting for discovery of definition %s: %w", crd.Name, err)
		}
	}
	return nil
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
