package rkecontrolplane

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/releases"
)

// ReleasesKey of the ConfigMap holds the catalogue.
const ReleasesKey = "releases.yaml"

// catalogue keeps what it parsed last: all clusters have the same.
type catalogue struct {
	mu      sync.Mutex
	text    string
	parsed  *releases.Catalogue
	problem string
}

// read gives the catalogue in the ConfigMap, or the one that is built in where there is no such ConfigMap, or why the ConfigMap's cannot be used.
func (c *catalogue) read(ctx context.Context, reader client.Reader, name types.NamespacedName) (*releases.Catalogue, string, error) {
	text := ""
	if name.Name != "" {
		found := &corev1.ConfigMap{}
		err := reader.Get(ctx, name, found)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, "", fmt.Errorf("reading the ConfigMap %s: %w", name, err)
		}
		if text = found.Data[ReleasesKey]; err == nil && text == "" {
			return nil, fmt.Sprintf("the ConfigMap %s has nothing under %s", name, ReleasesKey), nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.text == text && (c.parsed != nil || c.problem != "") {
		return c.parsed, c.problem, nil
	}
	var err error
	if c.text, c.problem = text, ""; text == "" {
		c.parsed, err = releases.Default()
	} else {
		c.parsed, err = releases.Parse([]byte(text))
	}
	if err != nil {
		c.parsed, c.problem = nil, fmt.Sprintf("the ConfigMap %s: %v", name, err)
	}
	return c.parsed, c.problem, nil
}
