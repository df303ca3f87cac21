package step

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/jobrunner"
)

// PullSecrets reads those of the manager's pull Secrets that a Job in a namespace has to be given. Only what the manager's flags name is
// read, and only in its own namespace.
func PullSecrets(ctx context.Context, reader client.Reader, settings jobrunner.Settings, namespace string) ([]corev1.Secret, error) {
	if settings.PullNamespace == "" || settings.PullNamespace == namespace {
		return nil, nil
	}
	var found []corev1.Secret
	for _, name := range settings.ImagePullSecrets {
		secret := corev1.Secret{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: settings.PullNamespace, Name: name}, &secret)
		if apierrors.IsNotFound(err) {
			continue // it is where the Jobs run, or the image needs none
		}
		if err != nil {
			return nil, fmt.Errorf("reading the pull Secret %s: %w", name, err)
		}
		found = append(found, secret)
	}
	return found, nil
}
