package finder

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
)

// Tagged is a server with a tag that names a machine, of whatever cluster.
type Tagged struct {
	// ID is its name at the cloud, Name what people call it.
	ID, Name string
	// Record holds the fields that the driver's record must have to mean this server.
	Record map[string]any
	// Tags are those with our keys.
	Tags map[string]string
	// Created is when the cloud made it; zero when the cloud does not tell.
	Created time.Time

	// keys are the SSH keys that it lets in; nil when the cloud does not tell.
	keys []string
	// words are the tags as get read them, where several may have one key.
	words []string
	// broken tells that it is on its way out or never came to be.
	broken bool
}

// Lister lists the servers of an account that carry our tags. Errors are the cloud's own.
type Lister interface {
	// List returns all servers that have a tag with a machine's UID. A list that is not whole is an error: who counts on it
	// would take the rest for gone.
	List(ctx context.Context) ([]Tagged, error)
	// Within is what the providerIDs of all servers that List can see begin with, for an account may have more places than a
	// credential names; empty when it sees all of the driver's.
	Within(ctx context.Context) string
	// Remove removes a server that List returned; a server already gone is no error.
	Remove(ctx context.Context, server Tagged) error
}

// errTooMany means that a list has no end that is worth waiting for.
var errTooMany = errors.New("looking for servers by tag: there are too many to list them all")

// ListerFor returns the lister of a driver, configured with the values of the driver's flags; nil when there is none.
func ListerFor(driver string, values map[string]any) Lister {
	options := flags(values)
	if driver == vSphereName {
		return newVSphere(options)
	}
	if found := cloudFor(driver, options); found != nil {
		return cloudLister{found}
	}
	return nil
}

// ExternalFlags are the flags that the lister of an external driver is made from, as its project documents them; none for others.
func ExternalFlags(driver string) []crdgen.Flag {
	switch driver {
	case hetznerName:
		return []crdgen.Flag{{Name: "hetzner-api-token", EnvVar: "HETZNER_API_TOKEN", Type: crdgen.String}}
	case linodeName:
		return []crdgen.Flag{{Name: "linode-token", EnvVar: "LINODE_TOKEN", Type: crdgen.String}}
	case vultrName:
		return []crdgen.Flag{{Name: "vultr-api-key", EnvVar: "VULTR_API_KEY", Type: crdgen.String}}
	}
	return nil
}

// ourKeys are the keys of our tags as a driver's flag writes them, and what they mean.
func ourKeys(driver string) map[string]string {
	flag := clouds.Of(driver).Tags
	keys := map[string]string{}
	for _, key := range []string{jobrunner.TagMachineUID, jobrunner.TagMachine, jobrunner.TagCluster, jobrunner.TagClusterUID, jobrunner.TagManagement} {
		keys[flag.Key(key)] = key
	}
	return keys
}

// wordTags reads tags that are words: key:value. One as long as a tag can be may have lost its end, and says nothing.
func wordTags(driver string, words []string) map[string]string {
	pairs := map[string]string{}
	longest := clouds.Of(driver).Tags.MaxKey
	for _, word := range words {
		if key, value, ok := strings.Cut(word, ":"); ok && len(word) < longest {
			pairs[key] = value
		}
	}
	return pairTags(driver, pairs)
}

// pairTags keeps of a server's tags those with our keys; nil when they name no machine.
func pairTags(driver string, pairs map[string]string) map[string]string {
	tags := map[string]string{}
	for written, key := range ourKeys(driver) {
		if value := pairs[written]; value != "" {
			tags[key] = value
		}
	}
	if tags[jobrunner.TagMachineUID] == "" {
		return nil
	}
	return tags
}
