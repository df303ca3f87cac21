package finder

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/digitalocean/godo"
	"github.com/gophercloud/gophercloud"
	"golang.org/x/oauth2"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
)

const (
	// findTimeout is for one question, with all its pages.
	findTimeout = 2 * time.Minute
	// patience are the pauses before a server whose answer was lost is taken for never made.
	// Amazon: "the effects of an API command might not be immediately visible to all subsequent
	// commands"; it advises to ask again at growing intervals (EC2 API Reference, "Eventual
	// consistency"). Google's and Azure's operations begin some moments after they were accepted.
	firstPatience, lastPatience = 2 * time.Second, 16 * time.Second
	// tagPatience is enough where lists do not lag, but tags come a moment after the server:
	// DigitalOcean applies them "to the Droplet after it is created" (API reference, "Create a New
	// Droplet"). Hetzner, Linode and Vultr take them with the server.
	tagPatience = 4 * time.Second
)

var patiences = map[string]time.Duration{digitalOceanName: tagPatience, hetznerName: tagPatience, linodeName: tagPatience, vultrName: tagPatience}

// Server is a server with a tag that names a machine, of whatever cluster.
type Server struct {
	// ID is its ID at the cloud, Name its display name.
	ID, Name string
	// Record holds the fields that the driver's record must have to mean this server.
	Record map[string]any
	// Tags are those with our keys.
	Tags map[string]string
	// Created is the time of its creation; zero if the cloud does not report it.
	Created time.Time
	// Unfinished is true if the server is unusable: its driver was cut off before it had all its
	// parts, the cloud is deleting it, or it does not accept the machine's SSH key.
	Unfinished bool

	// keys are the SSH keys that it accepts; nil if the cloud does not report them.
	keys []string
	// words are the tags as the cloud has them if it has plain words instead of pairs; several
	// words may have one key.
	words []string
	// broken is true if the cloud is deleting the server or failed to create it.
	broken bool
	// number is an ID that is not given twice, where ID may be.
	number string
}

// Machine is the owner of the servers and leftovers to find.
type Machine struct {
	// InstanceName is the server's name at the cloud.
	InstanceName string
	// Tags as they were asked for; encoded by the finder as the driver's flag encodes them.
	Tags map[string]string
	// PublicKey of the server, an authorized_keys line; nil when it is lost.
	PublicKey []byte
	// Record is the driver's, if any.
	Record map[string]any
	// Lost is true if a server was requested and the response was lost. The finder then asks clouds
	// whose lists lag for a while before it reports no server. A finder that cannot prove the owner
	// of a server returns ErrUncertain.
	Lost bool
	// Leaving is true if the machine is to keep no server.
	Leaving bool
	// Inherited is true if, by the state, the UID in Tags belongs to an earlier machine of this
	// namespace and name. Any user with write access to the state can put another machine's UID
	// there.
	Inherited bool
}

// Owns reports whether a server is the machine's by its tags. An inherited UID proves nothing
// without the tag with the machine's namespace and name. The cloud may cut that tag; it is then
// compared with ours, cut by the same rule.
func (m Machine) Owns(driver string, server Server) bool {
	flag := clouds.Of(driver).Tags
	if server.Tags[jobrunner.TagMachineUID] != flag.Value(m.Tags[jobrunner.TagMachineUID]) {
		return false
	}
	name := m.Tags[jobrunner.TagMachine]
	return !m.Inherited || name != "" && (server.Tags[jobrunner.TagMachine] == flag.Value(name) ||
		slices.Contains(server.words, flag.Items(map[string]string{jobrunner.TagMachine: name})[0]))
}

// ErrUncertain means that a server exists whose owner is unknown: the user must check.
var ErrUncertain = errors.New("the owner of the server is unknown")

// Finder finds and removes servers by tag. Errors are the cloud's own, as its SDK prints them, so
// that they can be classified like the driver's.
type Finder interface {
	// Find returns all servers with the machine's tags. An empty list is not an error; an
	// incomplete list is one.
	Find(ctx context.Context, machine Machine) ([]Server, error)
	// Namesakes returns the servers of this management cluster whose tags name a machine of the
	// same namespace and name, but with another UID. It returns none if the cloud has no tags.
	Namesakes(ctx context.Context, machine Machine) ([]Server, error)
	// Remove removes a server that Find returned. If the server is already gone, it returns nil.
	Remove(ctx context.Context, server Server) error
	// Sweep removes the resources that a driver leaves at the cloud beside servers, such as SSH
	// keys. It returns nil if nothing is left.
	Sweep(ctx context.Context, machine Machine) error
}

// Owner reads whose the server is that a driver's record names.
type Owner interface {
	// Get returns the server in the record. Without tags it has none of ours (it was taken over, or
	// created before Drover set tags); without ID it does not exist. If several tags have one key,
	// the one with uid counts. Errors are the cloud's own.
	Get(ctx context.Context, record map[string]any, uid string) (Server, error)
}

// For returns the finder of a driver, configured with the values of the driver's flags, or nil if
// the driver has none. Some options remove the tag from a driver's servers; For then returns nil,
// too.
func For(driver string, values map[string]any) Finder {
	if !clouds.Of(driver).Finder.Works(values) {
		return nil
	}
	if driver == openStackName {
		options := flags(values)
		return &openStack{
			keyPair: options.text("openstack-keypair-name"),
			inSteps: options.text("openstack-floatingip-pool") != "" ||
				!valueOf[bool](options, "openstack-boot-from-volume") && (options.text("openstack-volume-id") != "" || valueOf[int](options, "openstack-volume-size") > 0),
			connect: func(ctx context.Context) (*gophercloud.ServiceClient, error) { return connectOpenStack(ctx, options) },
		}
	}
	if lister := ListerFor(driver, values); lister != nil {
		return lister
	}
	return nil
}

// listers create the clients of the listers. An external driver's credential is a token alone.
var listers = map[string]func(options flags) cloud{
	digitalOceanName: func(options flags) cloud {
		source := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: options.text("digitalocean-access-token")})
		transport := &oauth2.Transport{Source: source, Base: http.DefaultTransport}
		return &digitalOcean{client: godo.NewClient(&http.Client{Transport: transport, Timeout: requestTimeout})}
	},
	amazonName: func(options flags) cloud { return newAmazonEC2(options) },
	azureName:  func(options flags) cloud { return newAzure(options) },
	googleName: func(options flags) cloud { return newGoogle(options) },
	vSphereName: func(options flags) cloud {
		return &vSphere{
			host: options.text("vmwarevsphere-vcenter"), port: valueOf[int](options, "vmwarevsphere-vcenter-port"),
			datacenter: options.text("vmwarevsphere-datacenter"),
			username:   options.text("vmwarevsphere-username"), password: options.text("vmwarevsphere-password"),
		}
	},
	hetznerName: func(options flags) cloud {
		return accountCloud{accountAPI: newHetzner(options.text("hetzner-api-token")), driver: hetznerName}
	},
	linodeName: func(options flags) cloud {
		return accountCloud{accountAPI: newLinode(options.text("linode-token")), driver: linodeName}
	},
	vultrName: func(options flags) cloud {
		return accountCloud{accountAPI: newVultr(options.text("vultr-api-key")), driver: vultrName}
	},
}

// ListerFor returns the lister of a driver, configured with the values of the driver's flags, or
// nil if the driver has none.
func ListerFor(driver string, values map[string]any) *ByTag {
	newCloud, known := listers[driver]
	if !known {
		return nil
	}
	return &ByTag{newCloud(flags(values)), driver, Pause}
}

// OwnerFor returns the Owner of a driver, configured with the values of the driver's flags; nil
// where servers have no tag of ours that could be read.
func OwnerFor(driver string, values map[string]any) Owner {
	needs := clouds.Of(driver).Finder.Needs
	if driver == vSphereName {
		needs = []string{"vmwarevsphere-vcenter"}
	}
	for _, flag := range needs {
		if value, known := values[flag]; !known || driver == vSphereName && value == "" {
			return nil // an external driver may go by the name of a built-in one
		}
	}
	if lister := ListerFor(driver, values); lister != nil {
		return lister
	}
	return nil
}

// ExternalFlags returns the flags for the lister of an external driver, as its project documents
// them, or none. The first is the flag with the token.
func ExternalFlags(driver string) []crdgen.Flag {
	switch driver {
	case hetznerName, linodeName, vultrName:
		name := clouds.Of(driver).Finder.Needs[0]
		return []crdgen.Flag{{Name: name, EnvVar: strings.ToUpper(strings.ReplaceAll(name, "-", "_")), Type: crdgen.String}}
	}
	return nil
}

// flags are values of a driver's flags.
type flags map[string]any

func (f flags) text(flag string) string { return valueOf[string](f, flag) }

// valueOf returns a flag's value, or zero if it has none of this type.
func valueOf[T any](f flags, flag string) T {
	value, _ := f[flag].(T)
	return value
}
