package apply

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NotAccepted returns why the API server does not accept the names of crd, or "".
func NotAccepted(crd *apiextensionsv1.CustomResourceDefinition) string {
	if accepted := apihelpers.FindCRDCondition(crd, apiextensionsv1.NamesAccepted); accepted != nil && accepted.Status == apiextensionsv1.ConditionFalse {
		return accepted.Message
	}
	return ""
}

// establishedInterval is the interval between checks of a CRD, which is usually served in less than
// a second.
const establishedInterval = 100 * time.Millisecond

// AwaitEstablished waits until the CRDs of these names are served, or the context ends. It needs a
// reader without a cache.
func AwaitEstablished(ctx context.Context, live client.Reader, names ...string) error {
	for _, name := range names {
		refusal := ""
		err := wait.PollUntilContextCancel(ctx, establishedInterval, true, func(ctx context.Context) (bool, error) {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			err := live.Get(ctx, client.ObjectKey{Name: name}, crd)
			refusal = cmp.Or(NotAccepted(crd), refusal)
			return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established), client.IgnoreNotFound(err)
		})
		if err != nil && refusal != "" {
			err = fmt.Errorf("%w: its names are not accepted: %s", err, refusal)
		}
		if err != nil {
			return fmt.Errorf("waiting for CRD %s to be established: %w", name, err)
		}
	}
	return nil
}
