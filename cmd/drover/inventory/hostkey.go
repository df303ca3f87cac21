package inventory

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/state"
)

// RecordHostKey writes a learned host key into a machine's state Secret, unless a key was recorded
// in the meantime.
func (a *API) RecordHostKey(ctx context.Context, m *facts.Machine, line []byte) error {
	secret, err := a.StateSecret(ctx, m)
	if err != nil {
		return err
	}
	if secret == nil {
		return errors.New("recording the host key: the state Secret is gone")
	}
	if len(secret.Data[state.SSHKnownHostsKey]) > 0 {
		return errors.New("recording the host key: another one was recorded in the meantime; try again without --accept-new-host-key")
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[state.SSHKnownHostsKey] = line
	// The update carries the resource version that was read, so that it cannot overwrite another
	// writer's key.
	_, err = a.Kube.CoreV1().Secrets(m.Namespace).Update(ctx, secret, metav1.UpdateOptions{FieldManager: fieldManager})
	if apierrors.IsConflict(err) {
		return errors.New("recording the host key: the state Secret changed in the meantime; try again")
	}
	if err != nil {
		return fmt.Errorf("recording the host key in Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}
