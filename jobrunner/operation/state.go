package operation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// maxStateBytes leaves room below the 1 MiB that a Secret's data may have.
	maxStateBytes = 1<<20 - 16<<10
	saveTimeout   = 45 * time.Second
)

// errStateTooLarge means that the state does not fit into a Secret.
var errStateTooLarge = errors.New("the machine's state does not fit into a Secret")

// Secrets is what an operation needs of the Secrets in its namespace; client-go's typed client has it. Errors must be such
// that apierrors recognises them.
type Secrets interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Secret, error)
	Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, options metav1.PatchOptions, subresources ...string) (*corev1.Secret, error)
}

// stateSecret is the one Secret a Job may write. Nobody else writes its data, so that what was read once stays true, and a
// patch cannot meet a conflict.
type stateSecret struct {
	client Secrets
	name   string
	data   map[string][]byte
	writes int
}

func (s *stateSecret) load(ctx context.Context) error {
	return retry(ctx, func(ctx context.Context) error {
		secret, err := s.client.Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading the state Secret %s: %w", s.name, err)
		}
		s.data = secret.Data
		if s.data == nil {
			s.data = map[string][]byte{}
		}
		return nil
	})
}

// save writes what differs in one patch; a nil value removes a key. It goes on for a while after the context has ended, for
// what is known must not be lost.
func (s *stateSecret) save(ctx context.Context, changes map[string][]byte) error {
	patch := map[string][]byte{}
	size := 0
	for key, value := range s.data {
		if _, changed := changes[key]; !changed {
			size += len(value)
		}
	}
	for key, value := range changes {
		size += len(value)
		if old, present := s.data[key]; present != (value != nil) || !bytes.Equal(old, value) {
			patch[key] = value
		}
	}
	if size > maxStateBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", errStateTooLarge, size, maxStateBytes)
	}
	if len(patch) == 0 {
		return nil
	}
	return s.patch(ctx, patch)
}

func (s *stateSecret) patch(ctx context.Context, changes map[string][]byte) error {
	body, err := json.Marshal(map[string]any{"data": changes})
	if err != nil {
		return fmt.Errorf("encoding the state: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	err = retry(ctx, func(ctx context.Context) error {
		if _, err := s.client.Patch(ctx, s.name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("writing the state Secret %s: %w", s.name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.writes++
	for key, value := range changes {
		if value == nil {
			delete(s.data, key)
			continue
		}
		s.data[key] = value
	}
	return nil
}

// retry tries again for half a minute unless the API server has understood the request and refuses it.
func retry(ctx context.Context, work func(context.Context) error) error {
	backoff := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 8}
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		last = work(ctx)
		switch {
		case last == nil:
			return true, nil
		case apierrors.IsNotFound(last), apierrors.IsForbidden(last), apierrors.IsUnauthorized(last), apierrors.IsInvalid(last),
			apierrors.IsBadRequest(last), apierrors.IsRequestEntityTooLargeError(last):
			return false, last
		}
		return false, nil
	})
	if last != nil {
		return last
	}
	return err
}
