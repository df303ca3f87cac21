package testkit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// establishTimeout is far more than the server ever takes.
const establishTimeout = 30 * time.Second

// ApplyCRDs makes or updates definitions and returns when the server serves them.
func ApplyCRDs(tb testing.TB, crds ...*apiextensionsv1.CustomResourceDefinition) {
	tb.Helper()
	require.NoError(tb, applyCRDs(Config(tb), crds))
}

func applyCRDs(config *rest.Config, crds []*apiextensionsv1.CustomResourceDefinition) error {
	copies := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(crds))
	for _, crd := range crds { // envtest modifies its arguments
		copies = append(copies, crd.DeepCopy())
	}
	_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{CRDs: copies, MaxTime: establishTimeout, PollInterval: 50 * time.Millisecond})
	return err
}
