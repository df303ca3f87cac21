package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// maxMappings is how many kinds of one workload cluster are remembered.
const maxMappings = 256

// mapper finds the resource of a kind by asking the workload cluster for that kind's version alone. It keeps what it found, a few hundred
// bytes each, and not what else the server said: discovery as client-go does it would keep megabytes of each server that wants so.
type mapper struct {
	meta.RESTMapper // knows nothing; it answers what Cluster API does not ask
	server          rest.Interface

	mu    sync.Mutex
	known map[schema.GroupVersionKind]*meta.RESTMapping
}

func newMapper(server rest.Interface) *mapper {
	return &mapper{RESTMapper: meta.NewDefaultRESTMapper(nil), server: server, known: map[schema.GroupVersionKind]*meta.RESTMapping{}}
}

// RESTMapping implements meta.RESTMapper for those who name a version.
func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	for _, version := range versions {
		found, err := m.mapping(kind.WithVersion(version))
		if err != nil || found != nil {
			return found, err
		}
	}
	return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
}

// RESTMappings implements meta.RESTMapper.
func (m *mapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	found, err := m.RESTMapping(kind, versions...)
	if err != nil {
		return nil, err
	}
	return []*meta.RESTMapping{found}, nil
}

func (m *mapper) mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	m.mu.Lock()
	found, ok := m.known[gvk]
	m.mu.Unlock()
	if ok {
		return found, nil
	}
	root := path.Join("/apis", gvk.Group, gvk.Version)
	if gvk.Group == "" {
		root = path.Join("/api", gvk.Version)
	}
	content, err := m.server.Get().AbsPath(root).DoRaw(context.Background()) // bounded in time by the transport
	if err != nil {
		return nil, fmt.Errorf("asking for the kinds of %s: %w", gvk.GroupVersion(), err)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, fmt.Errorf("reading the kinds of %s: %w", gvk.GroupVersion(), errAnswer)
	}
	for _, resource := range list.APIResources {
		if resource.Kind != gvk.Kind || strings.Contains(resource.Name, "/") {
			continue
		}
		scope := meta.RESTScopeRoot
		if resource.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		found = &meta.RESTMapping{Resource: gvk.GroupVersion().WithResource(strings.Clone(resource.Name)), GroupVersionKind: gvk, Scope: scope}
		m.remember(found)
		return found, nil
	}
	return nil, nil
}

func (m *mapper) remember(found *meta.RESTMapping) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= maxMappings {
		clear(m.known)
	}
	m.known[found.GroupVersionKind] = found
}
