package releases

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// The distributions, as versions name them.
const (
	K3s  = "k3s"
	RKE2 = "rke2"
)

// ErrUnknown is wrapped by Lookup's errors if the catalogue does not have the release. Its other
// errors mean that the name is not valid.
var ErrUnknown = errors.New("unknown release")

// Release is one release.
type Release struct {
	// Version such as v1.36.3+k3s1, and Distribution, k3s or rke2.
	Version, Distribution string
	// Number is the version in a comparable form.
	Number *version.Version
	// Listed is true if the catalogue lists the release itself, not only its line.
	Listed bool

	installer string
	kinds     map[role]map[string]Kind
}

type role bool

const (
	server role = true
	agent  role = false
)

// Kind is the kind of an argument's value.
type Kind string

// Kinds of arguments.
const (
	Unknown Kind = ""
	Boolean Kind = "true or false"
	Number  Kind = "a number"
	List    Kind = "a list"
	Text    Kind = "text"
)

// Lookup finds a release. For a release that is not listed, it uses the data of its line, unless
// the catalogue allows only listed releases.
func (c *Catalogue) Lookup(name string) (*Release, error) {
	v, err := parseVersion(name)
	if err != nil {
		return nil, err
	}
	distribution, known := c.Distributions[v.distribution]
	if !known {
		return nil, fmt.Errorf("%w: the catalogue has no release of %s", ErrUnknown, v.distribution)
	}
	listed := slices.Contains(distribution.Lines[v.minor], name)
	if _, known := distribution.Lines[v.minor]; !known {
		return nil, fmt.Errorf("%w: the catalogue has %s %s, and no release of %s", ErrUnknown, v.distribution, strings.Join(distribution.minors(), ", "), v.minor)
	}
	if !listed && distribution.ListedOnly {
		return nil, fmt.Errorf("%w: the catalogue has %s of %s %s, and no others are allowed", ErrUnknown,
			strings.Join(distribution.Lines[v.minor], ", "), v.distribution, v.minor)
	}
	return &Release{Version: name, Number: v.number, Distribution: v.distribution, Listed: listed, installer: distribution.Installer, kinds: distribution.kinds()}, nil
}

// minors are the lines, oldest first.
func (d Distribution) minors() []string {
	return slices.SortedFunc(maps.Keys(d.Lines), func(a, b string) int {
		v, err := version.ParseGeneric(a)
		if err != nil {
			return strings.Compare(a, b)
		}
		order, err := v.Compare(b)
		if err != nil {
			return strings.Compare(a, b)
		}
		return order
	})
}

func (d Distribution) kinds() map[role]map[string]Kind {
	kinds := map[role]map[string]Kind{server: {}, agent: {}}
	for which, sets := range map[role][]Arguments{server: {d.Arguments.Both, d.Arguments.Server}, agent: {d.Arguments.Both, d.Arguments.Agent}} {
		for _, set := range sets {
			for kind, names := range map[Kind][]string{Boolean: set.Boolean, Number: set.Number, List: set.List, Text: set.Text} {
				for _, name := range names {
					kinds[which][name] = kind
				}
			}
		}
	}
	return kinds
}

// Image returns the image that installs the release. A registry replaces Docker Hub, unless the
// catalogue names a host.
func (r *Release) Image(registry string) string {
	image := r.installer
	first, _, _ := strings.Cut(image, "/")
	if registry != "" && !strings.ContainsAny(first, ".:") {
		image = registry + "/" + image
	}
	return image + ":" + strings.ReplaceAll(r.Version, "+", "-")
}

// Argument returns the kind of an argument on a server or an agent; Unknown if the role does not
// have it.
func (r *Release) Argument(name string, isServer bool) Kind { return r.kinds[role(isServer)][name] }

// Newest returns the newest listed release of a distribution; empty if the catalogue has none.
func (c *Catalogue) Newest(distribution string) string {
	releases := c.Releases(distribution)
	if len(releases) == 0 {
		return ""
	}
	return releases[len(releases)-1]
}

// Releases lists the releases of a distribution, oldest first.
func (c *Catalogue) Releases(distribution string) []string {
	var all []string
	d := c.Distributions[distribution]
	for _, minor := range d.minors() {
		all = append(all, d.Lines[minor]...)
	}
	return all
}
