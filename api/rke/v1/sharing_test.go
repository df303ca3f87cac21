package v1_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

func TestSharedWith(t *testing.T) {
	for annotation, want := range map[string]bool{"": false, "team-a": true, "team-b, team-a ": true, "*": true, "team-b": false,
		"team": false, "team-a.": false, ",": false} {
		secret := &metav1.ObjectMeta{Annotations: map[string]string{rkev1.AllowedNamespacesAnnotation: annotation}}
		require.Equal(t, want, rkev1.SharedWith(secret, "team-a", nil), annotation)
	}
	require.False(t, rkev1.SharedWith(&metav1.ObjectMeta{}, "team-a", nil))

	// Of a trusted namespace only what Rancher's user interface made is taken, and not its other Secrets.
	trusted := []string{"cattle-global-data"}
	require.True(t, rkev1.SharedWith(&metav1.ObjectMeta{Namespace: "cattle-global-data", Name: "cc-x7k2p"}, "team-a", trusted))
	require.False(t, rkev1.SharedWith(&metav1.ObjectMeta{Namespace: "cattle-global-data", Name: "bootstrap-secret"}, "team-a", trusted))
	require.False(t, rkev1.SharedWith(&metav1.ObjectMeta{Namespace: "team-b", Name: "cc-x7k2p"}, "team-a", trusted))
	require.False(t, rkev1.SharedWith(&metav1.ObjectMeta{Name: "cc-x7k2p"}, "team-a", nil))
}
