package certificate

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Follower reads a Secret when it has changed, and at certain times.
type Follower struct {
	// Client watches the Secret.
	Client client.WithWatch
	// Secret is its namespace and name.
	Secret client.ObjectKey
	// Look is called at the start, after each change, and at the time that it returned; after an
	// error, in ten seconds.
	Look func(ctx context.Context, changed bool) (again time.Time, err error)
	// Now is the clock.
	Now func() time.Time
}

// RetryDelay is how long Start waits after a failure.
const RetryDelay = 10 * time.Second

// NeedLeaderElection returns false: every replica runs it.
func (f *Follower) NeedLeaderElection() bool { return false }

// Start goes on until the context ends.
func (f *Follower) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := f.follow(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Keeping a certificate fresh", "secret", f.Secret)
			select {
			case <-ctx.Done():
			case <-time.After(RetryDelay):
			}
		}
	}
	return nil
}

// follow returns nil when the server ended the watch, as it does now and then.
func (f *Follower) follow(ctx context.Context) error {
	watcher, err := f.Client.Watch(ctx, &corev1.SecretList{}, &client.ListOptions{
		Namespace: f.Secret.Namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", f.Secret.Name)})
	if err != nil {
		return fmt.Errorf("watching the Secret of a certificate: %w", err)
	}
	defer watcher.Stop()
	for changed := true; ; {
		again, err := f.Look(ctx, changed)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(again.Sub(f.Now()), time.Second)):
			changed = false
		case _, ok := <-watcher.ResultChan():
			if changed = true; !ok {
				return nil
			}
		}
	}
}

// Keep makes a TLS Secret hold the data that due returns, which may be its present data, and
// returns it. If the Secret does not exist, due gets one without a ResourceVersion. what describes
// the data in errors.
func Keep(ctx context.Context, c client.Client, key client.ObjectKey, what string, due func(*corev1.Secret) (map[string][]byte, error)) (map[string][]byte, error) {
	const attempts = 5
	for range attempts {
		secret := &corev1.Secret{}
		err := c.Get(ctx, key, secret)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading %s: %w", what, err)
		}
		missing, before := err != nil, secret.Data
		if secret.Data, err = due(secret); err != nil {
			return nil, err
		}
		switch {
		case missing:
			secret.ObjectMeta, secret.Type = metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, corev1.SecretTypeTLS
			err = c.Create(ctx, secret)
		case !maps.EqualFunc(before, secret.Data, bytes.Equal):
			err = c.Update(ctx, secret)
		}
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			continue // another replica was faster
		}
		if err != nil {
			return nil, fmt.Errorf("storing %s: %w", what, err)
		}
		return secret.Data, nil
	}
	return nil, fmt.Errorf("storing %s in Secret %s: too many conflicting updates", what, key)
}
