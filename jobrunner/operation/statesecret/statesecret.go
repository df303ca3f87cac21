// Package statesecret reads and writes the Secret that a machine's state is kept in.
package statesecret

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
	// maxBytes leaves room below the 1 MiB that a Secret's data may have.
	maxBytes = 1<<20 - 16<<10
	// SaveTimeout is how long a write goes on after the context has ended.
	SaveTimeout = 45 * time.Second
)

// ErrAnother means that there is another Secret of the name.
var ErrAnother = errors.New("it is not the Secret that this Job was created for: the Job or the Secret was restored from a backup. The Job does nothing")

// ErrTooLarge means that the state does not fit into a Secret.
var ErrTooLarge = errors.New("the machine's state does not fit into a Secret")

// Secrets is the part of a Secret client that an operation needs; client-go's typed client
// implements it. The errors must be recognised by apierrors.
type Secrets interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Secret, error)
	Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, options metav1.PatchOptions, subresources ...string) (*corev1.Secret, error)
}

// Secret is the one Secret that a Job may write. No other client writes its data, so that data read
// once stays true and a patch cannot conflict.
type Secret struct {
	Client Secrets
	Name   string
	// UID of the Secret; empty accepts any.
	UID types.UID
	// Data is the content of the Secret after Load.
	Data map[string][]byte
	// Writes is how often it was written.
	Writes int
}

// Load reads the Secret. It returns ErrAnother if a Secret with another UID has the name.
func (s *Secret) Load(ctx context.Context) error {
	return retry(ctx, func(ctx context.Context) error {
		secret, err := s.Client.Get(ctx, s.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading the state Secret %s: %w", s.Name, err)
		}
		if s.UID != "" && secret.UID != s.UID {
			return fmt.Errorf("reading the state Secret %s: %w", s.Name, ErrAnother)
		}
		s.Data = secret.Data
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		return nil
	})
}

// Save writes the differences in one patch; a nil value removes a key. It goes on for a while after
// the context has ended, because the known facts must not be lost.
func (s *Secret) Save(ctx context.Context, changes map[string][]byte) error {
	patch := map[string][]byte{}
	size := 0
	for key, value := range s.Data {
		if _, changed := changes[key]; !changed {
			size += len(value)
		}
	}
	for key, value := range changes {
		size += len(value)
		if old, present := s.Data[key]; present != (value != nil) || !bytes.Equal(old, value) {
			patch[key] = value
		}
	}
	if size > maxBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, size, maxBytes)
	}
	if len(patch) == 0 {
		return nil
	}
	body, err := json.Marshal(map[string]any{"data": patch})
	if err != nil {
		return fmt.Errorf("encoding the state: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), SaveTimeout)
	defer cancel()
	err = retry(ctx, func(ctx context.Context) error {
		if _, err := s.Client.Patch(ctx, s.Name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("writing the state Secret %s: %w", s.Name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.Writes++
	for key, value := range patch {
		if value == nil {
			delete(s.Data, key)
			continue
		}
		s.Data[key] = value
	}
	return nil
}

// retry tries again for half a minute unless the API server has understood the request and refuses
// it.
func retry(ctx context.Context, work func(context.Context) error) error {
	backoff := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 8}
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		last = work(ctx)
		switch {
		case last == nil:
			return true, nil
		case errors.Is(last, ErrAnother), apierrors.IsNotFound(last), apierrors.IsForbidden(last), apierrors.IsUnauthorized(last), apierrors.IsInvalid(last),
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
