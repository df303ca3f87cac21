package testkit

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Table is what kubectl get is given of the path of an object or a list: its columns. While the API server's storage of a new
// kind is not ready (429), it is asked again.
func Table(tb testing.TB, path string) metav1.Table {
	tb.Helper()
	clients, err := kubernetes.NewForConfig(Config(tb))
	require.NoError(tb, err)
	answer, err := clients.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(tb.Context())
	require.NoError(tb, err)
	var table metav1.Table
	require.NoError(tb, json.Unmarshal(answer, &table))
	return table
}
