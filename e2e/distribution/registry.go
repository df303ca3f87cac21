package distribution

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// InstallerImage is the name of the installer in a registry, as releases.Release.Image has it for
// the release that localkube stands in for.
const InstallerImage = "rancher/system-agent-installer-k3s:v1.36.3-k3s1"

// Registry keeps images in memory and serves them. Servers find it through registries.yaml. Every
// client that reaches it can push.
type Registry struct {
	handler http.Handler
	// installed makes the installer once, at the first request: most registries get none.
	installed func() error
}

var _ http.Handler = (*Registry)(nil)

// NewRegistry has the installer of a localkube.
func NewRegistry(localkube string) *Registry {
	r := &Registry{handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	r.installed = sync.OnceValue(func() error {
		image, err := Installer(localkube)
		if err != nil {
			return err
		}
		ref, err := name.ParseReference(InstallerImage, name.WithDefaultRegistry("registry.invalid"))
		if err != nil {
			return fmt.Errorf("naming image %s: %w", InstallerImage, err)
		}
		if err := remote.Write(ref, image, remote.WithTransport(inProcess{r.handler})); err != nil {
			return fmt.Errorf("keeping image %s: %w", InstallerImage, err)
		}
		return nil
	})
	return r
}

// ServeHTTP implements http.Handler.
func (r *Registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if err := r.installed(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	r.handler.ServeHTTP(w, request)
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
