package rkecontrolplane

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/releases"
)

// ReleasesKey of the ConfigMap holds the catalogue.
const ReleasesKey = "releases.yaml"

// catalogue keeps what it parsed last: all clusters have the same.
type catalogue struct {
	mu      sync.Mutex
	read    bool
	version string // of the ConfigMap; empty where there is none
	parsed  *releases.Catalogue
	problem string
}

// get gives the catalogue in the ConfigMap, or the one that is built in where there is no such ConfigMap, or why the ConfigMap's cannot be used. The metadata in
// the manager's cache tell when it is to be read again.
func (c *catalogue) get(ctx context.Context, cached, live client.Reader, name types.NamespacedName) (*releases.Catalogue, string, error) {
	found := &corev1.ConfigMap{}
	if name.Name != "" {
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		if err := cached.Get(ctx, name, metadata); client.IgnoreNotFound(err) != nil {
			return nil, "", fmt.Errorf("looking for the ConfigMap %s: %w", name, err)
		}
		found.ResourceVersion = metadata.ResourceVersion
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read && c.version == found.ResourceVersion {
		return c.parsed, c.problem, nil
	}
	if found.ResourceVersion != "" {
		if err := live.Get(ctx, name, found); err != nil { // not found either: the cache will tell
			return nil, "", fmt.Errorf("reading the ConfigMap %s: %w", name, err)
		}
	}
	c.read, c.version, c.problem = true, found.ResourceVersion, ""
	text, err := found.Data[ReleasesKey], error(nil)
	switch {
	case c.version == "":
		c.parsed, err = releases.Default()
	case text == "":
		c.parsed, c.problem = nil, fmt.Sprintf("the ConfigMap %s has nothing under %s", name, ReleasesKey)
	default:
		c.parsed, err = releases.Parse([]byte(text))
	}
	if err != nil {
		c.parsed, c.problem = nil, fmt.Sprintf("the ConfigMap %s: %v", name, err)
	}
	return c.parsed, c.problem, nil
}
