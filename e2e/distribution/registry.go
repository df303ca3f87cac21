package distribution

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Registry keeps images in memory and is an http.Handler that serves them. A server is told of it by registries.yaml.
type Registry struct {
	http.Handler
}

// NewRegistry has no images yet.
func NewRegistry() *Registry {
	return &Registry{registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
}

// Add keeps an image under a name without a registry, such as rancher/system-agent-installer-k3s:v1.36.3-k3s1.
func (r *Registry) Add(image string, content v1.Image) error {
	ref, err := name.ParseReference(image, name.WithDefaultRegistry("registry.invalid"))
	if err != nil {
		return fmt.Errorf("naming image %s: %w", image, err)
	}
	if err := remote.Write(ref, content, remote.WithTransport(inProcess{r})); err != nil {
		return fmt.Errorf("keeping image %s: %w", image, err)
	}
	return nil
}

// inProcess asks a handler without a network.
type inProcess struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (p inProcess) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil {
		request.Body = http.NoBody
	}
	recorder := httptest.NewRecorder()
	p.handler.ServeHTTP(recorder, request)
	response := recorder.Result()
	response.Request = request
	return response, nil
}
