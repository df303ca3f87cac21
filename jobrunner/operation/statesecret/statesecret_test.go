package statesecret

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
)

func TestSecret(t *testing.T) {
	client := fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}, Data: map[string][]byte{"a": []byte("1"), "b": []byte("2")}})
	s := &Secret{Client: client.CoreV1().Secrets("n"), Name: "s"}
	require.NoError(t, s.Load(t.Context()))
	require.NoError(t, s.Save(t.Context(), map[string][]byte{"a": []byte("1"), "gone": nil}))
	require.Zero(t, s.Writes, "nothing differs")

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.Save(cancelled, map[string][]byte{"a": []byte("3"), "b": nil}), "what is known is saved after the end too")
	secret, err := client.CoreV1().Secrets("n").Get(t.Context(), "s", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"a": []byte("3")}, secret.Data)
	require.ErrorIs(t, s.Save(t.Context(), map[string][]byte{"c": make([]byte, 2<<20)}), ErrTooLarge)
	missing := &Secret{Client: client.CoreV1().Secrets("n"), Name: "missing"}
	require.Error(t, missing.Load(t.Context()))
}

// TestSecret_retries what may pass, and not what the API server has understood and refuses.
func TestSecret_retries(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	for name, c := range map[string]struct {
		err   error
		again bool
	}{
		"a broken connection": {errors.New("EOF"), true}, "too many requests": {apierrors.NewTooManyRequests("slow", 1), true},
		"an accident": {apierrors.NewInternalError(errors.New("x")), true}, "not now": {apierrors.NewServiceUnavailable("x"), true},
		"a conflict": {apierrors.NewConflict(resource, "s", errors.New("x")), true},
		"forbidden":  {apierrors.NewForbidden(resource, "s", errors.New("x")), false}, "unauthorized": {apierrors.NewUnauthorized("x"), false},
		"not found": {apierrors.NewNotFound(resource, "s"), false}, "bad": {apierrors.NewBadRequest("x"), false},
		"too large": {apierrors.NewRequestEntityTooLargeError("x"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			err := retry(t.Context(), func(context.Context) error {
				if asked++; asked == 1 {
					return c.err
				}
				return nil
			})
			if c.again {
				require.NoError(t, err)
				require.Equal(t, 2, asked)
				return
			}
			require.Equal(t, c.err, err)
			require.Equal(t, 1, asked)
		})
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, retry(cancelled, func(context.Context) error { return errors.New("x") }))
}
