package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/drover-project/drover/agent"
	"github.com/drover-project/drover/agent/proxy"
	"github.com/drover-project/drover/api/plan"
)

// pullTimeout bounds one image from one place. Its instruction may take an hour, so that a place
// that trickles leaves time for another.
const pullTimeout = 30 * time.Minute

// Puller unpacks images.
type Puller struct {
	// Images is a folder of tarballs as docker save writes them; they come before any registry.
	Images string
	// Registries are paths of registries.yaml. The first file that exists is used.
	Registries []string
	// Proxies of requests to registries; nil uses none.
	Proxies *proxy.Proxies
	Log     logr.Logger
}

// Unpack writes an image's files into an empty folder.
func (p *Puller) Unpack(ctx context.Context, image, folder string) error {
	local, err := p.local(image)
	if err != nil {
		return err
	}
	if local != nil {
		return unpack(ctx, local, folder, limits)
	}
	registries, err := readRegistries(p.Registries)
	if err != nil {
		return err
	}
	sources, err := sources(registries, image)
	if err != nil {
		return err
	}
	var all error
	for _, source := range sources {
		err := p.pull(ctx, source, folder)
		if err == nil {
			return nil
		}
		err = fmt.Errorf("from %s: %w", source.ref.Context().RegistryStr(), err)
		if all == nil {
			all = err
		} else {
			all = fmt.Errorf("%w; %w", all, err) // a condition shows it in one line
		}
		if ctx.Err() != nil {
			break
		}
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
	}
	return all
}

func (p *Puller) pull(ctx context.Context, s source, folder string) error {
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	credential, err := authenticator(s.config.Auth)
	if err != nil {
		return err
	}
	files := cmp.Or(s.config.TLS, &plan.RegistryTLS{})
	config, err := agent.TLSConfig(plan.HTTPGet{Insecure: files.InsecureSkipVerify, CACert: files.CAFile, ClientCert: files.CertFile, ClientKey: files.KeyFile})
	if err != nil {
		return err
	}
	transport := &http.Transport{
		TLSClientConfig: config, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 15 * time.Second, ResponseHeaderTimeout: time.Minute,
		DialContext: (&net.Dialer{Timeout: 15 * time.Second}).DialContext,
	}
	defer transport.CloseIdleConnections()
	img, err := remote.Image(s.ref, remote.WithContext(ctx), remote.WithAuth(credential), remote.WithTransport(onlyTLS{p.Proxies.Transport(transport), s.plain}),
		remote.WithPlatform(v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}), remote.WithUserAgent("drover-agent"))
	if err != nil {
		return err
	}
	return unpack(ctx, img, folder, limits)
}

// onlyTLS refuses to speak without TLS to a registry whose address does not say so. The library
// would, for private addresses and by redirects.
type onlyTLS struct {
	next  http.RoundTripper
	plain bool
}

// RoundTrip sends a request, or refuses to.
func (o onlyTLS) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" && !o.plain {
		return nil, errors.New("the registry would be spoken to without TLS; give it an http:// endpoint in registries.yaml if that is wanted")
	}
	return o.next.RoundTrip(request)
}

// local is an image of the folder of tarballs, or nil.
func (p *Puller) local(image string) (v1.Image, error) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return nil, fmt.Errorf("parsing image name: %w", err)
	}
	tag, ok := ref.(name.Tag)
	if !ok || p.Images == "" {
		return nil, nil // a digest is not looked for in tarballs, which are known by tags
	}
	paths, err := filepath.Glob(filepath.Join(p.Images, "*.t*"))
	if err != nil {
		return nil, fmt.Errorf("looking for images in %s: %w", p.Images, err)
	}
	for _, path := range paths {
		open := opener(path)
		if open == nil {
			continue
		}
		manifest, err := tarball.LoadManifest(open)
		if err != nil {
			p.Log.Error(err, "A file of the images' folder cannot be read", "path", path)
			continue
		}
		for _, one := range manifest {
			for _, has := range one.RepoTags {
				if is, err := name.NewTag(has); err == nil && is.Name() == tag.Name() {
					p.Log.Info("Using local image", "image", image, "path", path)
					return tarball.Image(open, &is)
				}
			}
		}
	}
	return nil, nil
}
