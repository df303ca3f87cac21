package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/keys"
	"github.com/drover-project/drover/capi/kubeconfig"
)

// maxResourceNodes bounds the YAML of one key of a ClusterResourceSet's ConfigMap or Secret; a
// network plugin with its CRDs has some 30,000 nodes.
const maxResourceNodes = 100_000

// Resources is the reader of the controller of ClusterResourceSets: their documents are expanded
// and decoded in our process, and some kilobytes of aliases become gigabytes.
type Resources struct {
	client.Client

	recorder events.EventRecorder
	// one document is checked at a time.
	mu *sync.Mutex
}

// Reasons of events about a ConfigMap or Secret that is not applied.
const (
	ResourceRefusedReason = "ResourceRefused"
	ResourceMissingReason = "ResourceMissing"
)

// NewResources creates the reader; recorder reports why a ConfigMap or Secret is not applied.
func NewResources(c client.Client, recorder events.EventRecorder) Resources {
	return Resources{Client: c, recorder: recorder, mu: &sync.Mutex{}}
}

// Get implements client.Reader.
func (c Resources) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, obj, opts...); err != nil {
		switch obj.(type) {
		case *corev1.ConfigMap, *corev1.Secret:
			if apierrors.IsNotFound(err) { // which Cluster API passes over
				obj.SetNamespace(key.Namespace)
				obj.SetName(key.Name)
				c.recorder.Eventf(obj, nil, corev1.EventTypeWarning, ResourceMissingReason, "Apply", "A ClusterResourceSet names it, but it does not exist")
			}
		}
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	switch read := obj.(type) {
	case *corev1.ConfigMap:
		for name, text := range read.Data {
			err = errors.Join(err, checkResource(name, []byte(text)))
		}
	case *corev1.Secret:
		if read.Type != addonsv1.ClusterResourceSetSecretType {
			return nil // Cluster API reads no other type, and reports that
		}
		for name, data := range read.Data {
			err = errors.Join(err, checkResource(name, data))
		}
	}
	if err != nil {
		c.recorder.Eventf(obj, nil, corev1.EventTypeWarning, ResourceRefusedReason, "Apply", "A ClusterResourceSet names it: %s", err)
	}
	return err
}

// checkResource rejects YAML that expands to more than its size.
func checkResource(key string, content []byte) error {
	documents := yaml.NewDecoder(bytes.NewReader(content))
	for nodes := 0; ; {
		var document yaml.Node
		if err := documents.Decode(&document); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("key %s is not applied: its YAML cannot be read", key)
		}
		if nodes += kubeconfig.CountNodes(&document, maxResourceNodes); nodes > maxResourceNodes {
			return fmt.Errorf("key %s is not applied: it has YAML aliases or anchors, or more than %d nodes: remove the aliases, or split it into several keys", key, maxResourceNodes)
		}
	}
}

// Authorities is the reader of the controller of Clusters: for a Cluster without a controller of
// its control plane, that controller signs a kubeconfig with the authority in the Secret
// <cluster>-ca.
type Authorities struct{ client.Client }

// Get implements client.Reader.
func (c Authorities) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	read, ok := obj.(*corev1.Secret)
	if !ok || !strings.HasSuffix(key.Name, "-"+string(secret.ClusterCA)) {
		return nil
	}
	if err := errors.Join(keys.CheckKey(read.Data[secret.TLSKeyDataName]), keys.CheckCertificates(read.Data[secret.TLSCrtDataName])); err != nil {
		return fmt.Errorf("the authority in Secret %s %w", key.Name, err)
	}
	return nil
}
