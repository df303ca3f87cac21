package capi_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/testkit"
)

func TestParseMode_takesThreeWords(t *testing.T) {
	for _, word := range []string{"auto", "embedded", "external"} {
		mode, err := capi.ParseMode(word)
		require.NoError(t, err)
		require.Equal(t, word, string(mode))
	}
	for _, word := range []string{"", "Auto", " auto", "none", "embedded,external"} {
		_, err := capi.ParseMode(word)
		require.EqualError(t, err, "--capi="+word+" is none of auto, embedded, external")
	}
}

// TestInstalled_onARealServer looks at the very CRDs that we install.
func TestInstalled_onARealServer(t *testing.T) {
	c := testkit.Client(t, newScheme(t))
	found, err := capi.Installed(t.Context(), c)
	require.NoError(t, err)
	require.True(t, found.Complete())
	require.Empty(t, found.Foreign, "they are labelled as ours")
	mode, err := capi.Resolve(t.Context(), c, capi.Auto)
	require.NoError(t, err)
	require.Equal(t, capi.Embedded, mode, "a second start embeds again")
}

// A server that does not answer decides nothing: to embed beside another core would be worse than not to start.
func TestResolve_doesNotGuess(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	refuses := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("forbidden")
		}}).Build()
	for _, mode := range []capi.Mode{capi.Auto, capi.Embedded, capi.External} {
		_, err := capi.Resolve(t.Context(), refuses, mode)
		require.EqualError(t, err, "looking for CRD clusters.cluster.x-k8s.io: forbidden")
	}
}

func TestResolve_saysWhatToDo(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	with := func(objs ...client.Object) client.Client {
		return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objs...).Build()
	}
	for name, tt := range map[string]struct {
		there client.Client
		asked capi.Mode
		want  string
	}{
		"external, nothing there": {with(), capi.External,
			"no Cluster API is installed (clusters.cluster.x-k8s.io, machines.cluster.x-k8s.io, machinesets.cluster.x-k8s.io, machinedeployments.cluster.x-k8s.io missing): run `clusterctl init --core cluster-api`, or start the manager with --capi=embedded"},
		"embedded beside another": {with(crd("machines.cluster.x-k8s.io", false), crd("clusters.cluster.x-k8s.io", true)), capi.Embedded,
			"another Cluster API was installed by somebody else (machines.cluster.x-k8s.io): two of it would fight over every object; start the manager with --capi=external, or remove the other one first"},
		"auto, the other one is half there": {with(crd("machines.cluster.x-k8s.io", false), crd("clusters.cluster.x-k8s.io", false), crd("machinesets.cluster.x-k8s.io", false)), capi.Auto,
			"no Cluster API is installed (machinedeployments.cluster.x-k8s.io missing): run `clusterctl init --core cluster-api`, or start the manager with --capi=embedded"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := capi.Resolve(t.Context(), tt.there, tt.asked)
			require.EqualError(t, err, tt.want)
		})
	}
}
