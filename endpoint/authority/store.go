package authority

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/endpoint/certificate"
)

// store reads our own Secret and makes of it what is due; it gives its data and when to look again.
func (s *Source) store(ctx context.Context) (data map[string][]byte, again time.Time, err error) {
	data, err = certificate.Keep(ctx, s.Client, s.Secret, "the endpoint's authority", func(secret *corev1.Secret) (data map[string][]byte, err error) {
		if data = secret.Data; secret.ResourceVersion == "" {
			if data, err = s.lost(ctx); err != nil {
				return nil, err
			}
		}
		if data, again, err = turn(data, secret.Annotations[RotateAnnotation], s.Now()); err != nil {
			return nil, fmt.Errorf("reading the endpoint's authority from Secret %s, which is not made anew, for agents trust it: %w", s.Secret, err)
		}
		data[hostsKey] = remember(data[hostsKey], s.opts.Names, s.current.Load() == nil)
		return data, nil
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	// Which authorities agents trust is written down, so that a lost one is noticed.
	applier := apply.Applier{Client: s.Client, Reader: s.Client, Owner: "drover-endpoint"}
	trusted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Secret.Namespace, Name: s.Secret.Name}, Data: map[string]string{bundleKey: string(data[bundleKey])}}
	if _, err := applier.Apply(ctx, trusted); err != nil {
		return nil, time.Time{}, fmt.Errorf("writing down which authority agents trust: %w", err)
	}
	return data, again, nil
}

// lost is what to put in the place of a Secret that is not there: what this replica knows; nothing, which is to be filled, when there never was one.
func (s *Source) lost(ctx context.Context) (map[string][]byte, error) {
	if known := s.current.Load(); known != nil {
		log.FromContext(ctx).Info("Putting the endpoint's authority back, for somebody deleted its Secret", "secret", s.Secret)
		return known.secret, nil
	}
	err := s.Client.Get(ctx, s.Secret, &corev1.ConfigMap{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking whether there was an authority of the endpoint: %w", err)
	}
	return nil, fmt.Errorf("the endpoint's authority is gone, and agents trust no other: put Secret %s back from a backup; "+
		"or delete the ConfigMap of this name to have a new one made, and run the install script on every server again", s.Secret)
}
