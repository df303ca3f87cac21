package access

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/drover-project/drover/agent"
)

// Secret is the plan Secret at the endpoint. Its client knows the core types and no others, to be
// small.
type Secret struct {
	client          rest.Interface
	namespace, name string
}

var _ agent.PlanSecret = (*Secret)(nil)

const secrets = "secrets"

// minWatch is how long a watch lasts at least: a new one is a request, and looks whether the token
// is to be renewed.
const minWatch = 15 * time.Minute

// NewSecret is the plan Secret of a registered agent.
func NewSecret(a *Access) (*Secret, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	version := corev1.SchemeGroupVersion
	config := &rest.Config{Host: "https://endpoint", APIPath: "/api", Transport: a, QPS: -1, UserAgent: "drover-agent/" + a.o.Version}
	config.GroupVersion, config.NegotiatedSerializer = &version, serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	namespace, name := a.Secret()
	return &Secret{client: client, namespace: namespace, name: name}, nil
}

// Get reads the Secret.
func (s *Secret) Get(ctx context.Context) (*corev1.Secret, error) {
	out := &corev1.Secret{}
	return out, s.client.Get().Namespace(s.namespace).Resource(secrets).Name(s.name).Do(ctx).Into(out)
}

// Update writes the Secret if it is still the one that was read.
func (s *Secret) Update(ctx context.Context, secret *corev1.Secret) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	out := &corev1.Secret{}
	return out, s.client.Put().Namespace(s.namespace).Resource(secrets).Name(s.name).Body(secret).Do(ctx).Into(out)
}

// Watch calls set with the Secret after each change, until the context ends.
func (s *Secret) Watch(ctx context.Context, set func(*corev1.Secret)) {
	one := fields.OneTermEqualSelector(metav1.ObjectNameField, s.name)
	source := cache.NewListWatchFromClient(s.client, secrets, s.namespace, one)
	reflector := cache.NewReflectorWithOptions(source, &corev1.Secret{}, sink{set: set, name: s.name}, cache.ReflectorOptions{Name: "plan", MinWatchTimeout: minWatch})
	reflector.RunWithContext(ctx)
}

// sink is the store of a reflector of one object.
type sink struct {
	set  func(*corev1.Secret)
	name string
}

var _ cache.ReflectorStore = sink{}

// Add is Update.
func (s sink) Add(obj any) error { return s.Update(obj) }

// Update passes on the current Secret.
func (s sink) Update(obj any) error {
	secret, ok := obj.(*corev1.Secret)
	if !ok || secret.Name != s.name {
		return errors.New("the endpoint sends an object that was not asked for")
	}
	s.set(secret)
	return nil
}

// Delete passes on that the Secret is gone.
func (s sink) Delete(any) error {
	s.set(nil)
	return nil
}

// Replace passes on the Secret of a list, or nil if the list is empty.
func (s sink) Replace(all []any, _ string) error {
	if len(all) == 0 {
		return s.Delete(nil)
	}
	return s.Update(all[0])
}

// Resync has nothing to do.
func (s sink) Resync() error { return nil }
