package clouds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Cloud describes a driver and its cloud. For a driver without a description only Driver and
// EnvPrefix are set. Fields of records and names of flags are those in the driver's source.
type Cloud struct {
	// Driver's name, as in its flags and in the name of its binary.
	Driver string

	// ID is the record's field that names the server at the cloud; empty if the driver goes by the
	// machine's name.
	ID string
	// ByName is true if the machine's name identifies the server at the cloud, so that the driver's
	// GetState finds it even if the driver's response was lost.
	ByName bool
	// InSteps is true if the record names the server before the server has its user data: a server
	// whose creation failed is useless.
	InSteps bool
	// NoServer is true if the driver creates no server: no server can be left behind.
	NoServer bool
	// Names restricts the names that the driver can give to servers. NameFlag is the flag with the
	// server's name, if the driver does not use the machine's.
	Names    NameRule
	NameFlag string

	// ProviderID and Zone are templates over the record; lower-case names in braces are made
	// lower-case.
	ProviderID string
	Zone       string
	// Place maps the record's fields for the server's location to their flags. A server must be
	// searched for where it was made, not with an account at another location.
	Place map[string]string
	// ZoneFlag takes the zone or region that is the server's failure domain; empty if the driver
	// has none. ZonePrefix is the flag whose value a failure domain begins with and the value of
	// ZoneFlag does not.
	ZoneFlag, ZonePrefix string
	// Private are the fields that hold the server's private address.
	Private []string
	// normal brings a record's fields into the form that templates need; nil when they have it.
	normal func(Record) Record

	// Tags is the flag for tags, if any. TagsCopied is true if a copy of a server has its tags,
	// too.
	Tags       TagFlag
	TagsCopied bool

	// KeyFile is the flag that takes the path of a private SSH key to use, if the driver registers
	// the key with the cloud; it reads the public key from the file beside it. KeyInPlace is true
	// if the driver uses an existing key at the path where it would create one, like libmachine's
	// ssh.GenerateSSHKey. KeyUnless are flags with which the user provides a key.
	KeyFile    string
	KeyInPlace bool
	KeyUnless  []string
	// NeedsKey is the flag with the key that the user must provide because the server exists
	// already.
	NeedsKey string

	// ConfigHasCommon is true if Rancher's <X>Config of this driver has common and providerID by
	// mistake; they are accepted and ignored.
	ConfigHasCommon bool
	// Rules restrict the values of flags; see RuleOf.
	Rules map[string]Rule

	// UserData is how the driver takes user data.
	UserData UserData

	// CloudInit is cloud-init's name of the cloud (v1.cloud_name), if cloud-init's instance ID is
	// the ID in the driver's record: a server can then identify itself. Empty for other clouds.
	CloudInit string

	// EnvPrefix is the prefix of the driver's environment variables.
	EnvPrefix string
	// NodeDriver is the NodeDriver that exists from the start, or nil.
	NodeDriver *NodeDriver

	// Finder is the method for finding a server whose ID was lost. Lists is true if package finder
	// can list all servers with our tags.
	Finder Finder
	Lists  bool

	// Beside lists the resources that the driver's Remove deletes together with the server, so that
	// they are left when a server is given up. It is empty if they are unknown. The source is
	// Remove in rancher/machine, drivers/<name>, or the source that the file names.
	Beside string
	// Leftovers is a sentence for users about resources that the driver's Remove leaves behind and
	// that may cost money. docs/drivers.md lists the driver's other limits.
	Leftovers string

	words words
}

// maxName is the longest name that is good for a hostname.
const maxName = 63

// NameRule restricts the names that a driver can give to servers, if it does not accept every
// hostname.
type NameRule struct {
	// Longest name; 0 if the driver has no limit of its own.
	Longest int
	// LetterFirst is true if a name must begin with a letter.
	LetterFirst bool
}

// Finder is how a server is found again whose id was lost.
type Finder struct {
	Kind FinderKind
	// Needs are flags that the driver must have, because an external driver may have the name of a
	// built-in one.
	Needs []string
	// Unless are switches that remove the tag from the driver's servers; the driver then has no
	// finder.
	Unless []string
}

// FinderKind is the method by which package finder recognises a server.
type FinderKind string

// Kinds of finders.
const (
	// NoFinder: the driver has no finder.
	NoFinder FinderKind = ""
	// ByTag goes by the tag with the machine's UID.
	ByTag FinderKind = "tag"
	// ByNameAndKey goes by the server's name, and proves the owner by its SSH key.
	ByNameAndKey FinderKind = "name and SSH key"
)

// ZoneValue is the value of ZoneFlag for a failure domain.
func (c Cloud) ZoneValue(domain string, values map[string]any) (string, error) {
	prefix, _ := values[c.ZonePrefix].(string)
	value, within := strings.CutPrefix(domain, prefix)
	if value == "" || !within && len(domain) > 1 { // a lone letter is a zone of Amazon's already
		return "", fmt.Errorf("failure domain %q is not a zone of %s %q", domain, c.ZonePrefix, prefix)
	}
	return value, nil
}

// Works reports whether the finder can be used with these values of the driver's flags.
func (f Finder) Works(values map[string]any) bool {
	for _, flag := range f.Needs {
		if _, known := values[flag]; !known {
			return false
		}
	}
	return f.Kind != NoFinder && !slices.ContainsFunc(f.Unless, func(flag string) bool { return values[flag] == true })
}

// known are the drivers that have a file here; each file adds its own.
var known = map[string]Cloud{}

func add(clouds ...Cloud) bool { //nolint:unparam // the result lets a file add its drivers where a variable is declared
	for _, c := range clouds {
		known[c.Driver] = c
	}
	return true
}

// Of returns the description of a driver.
func Of(driver string) Cloud {
	c := known[driver]
	c.Driver = driver
	if c.EnvPrefix == "" {
		c.EnvPrefix = strings.ToUpper(strings.ReplaceAll(driver, "-", "_"))
	}
	return c
}

// TakesHosts reports whether the driver takes an existing host, which its options name: rancher/machine's
// driver generic has one flag for one address (drivers/generic). Two machines may name the same host,
// and the host stays when its machine is removed.
func (c Cloud) TakesHosts() bool { return c.NoServer && c.NeedsKey != "" }

// Known reports whether anything is known of the driver.
func (c Cloud) Known() bool {
	_, ok := known[c.Driver]
	return ok
}

// All returns the drivers that something is known of, by name.
func All() []Cloud {
	out := make([]Cloud, 0, len(known))
	for _, name := range slices.Sorted(maps.Keys(known)) {
		out = append(out, Of(name))
	}
	return out
}
