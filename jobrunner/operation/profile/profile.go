package profile

import "slices"

// Profile of a driver; the zero value is that of an unknown one.
type Profile struct {
	// ID is the record's field that names the server at the cloud; empty when the driver goes by the machine's name.
	ID string
	// ByName tells that the machine's name names the server at the cloud, so that the driver's GetState finds it even if
	// the driver's answer was lost.
	ByName bool
	// InSteps tells that the record names the server before the server has its user data: one whose creation did not succeed
	// is of no use.
	InSteps bool
	// NoServer tells that the driver makes no server: there is nothing that could be left behind.
	NoServer bool
	// ProviderID and Zone are templates over the record; lower-case names in braces are made lower-case.
	ProviderID string
	Zone       string
	// Place are the record's fields that say where the server is, with the flags they come from. A server is to be looked for
	// where it was made, and not with an account that has another place.
	Place map[string]string
	// Private are the fields that hold the server's private address.
	Private []string
	// Tags is the flag for tags, if any.
	Tags TagFlag
	// KeyFile is the flag that takes the path of a private SSH key to use, when the driver registers the key with the cloud
	// by itself; the public key is read from beside it. KeyInPlace tells that the driver takes the key that lies where it would
	// make one, as libmachine's ssh.GenerateSSHKey does. KeyUnless are flags with which the user brings a key of his own.
	KeyFile    string
	KeyInPlace bool
	KeyUnless  []string
	// UserDataUnless are values of flags with which the driver does not hand user data over.
	UserDataUnless map[string]string
	// NeedsKey tells that the user must bring the key, for the server exists already.
	NeedsKey string
}

// TagFlag is a driver's flag for tags or labels.
type TagFlag struct {
	// Flag's name; empty when there is none.
	Flag string
	// Form of the flag's value.
	Form TagForm
	// Characters tells which characters the cloud takes besides letters and digits; Lower that letters are made small.
	Characters string
	Lower      bool
	// MaxKey and MaxValue are lengths; with Words, MaxKey is that of the whole.
	MaxKey, MaxValue int
}

// TagForm is how a flag writes tags.
type TagForm int

// Forms of tag flags.
const (
	// NoTags: the driver has no flag for tags.
	NoTags TagForm = iota
	// Words are comma-separated words; a tag becomes key:value.
	Words
	// Pairs are comma-separated keys and values in turn.
	Pairs
	// List is a list of key=value.
	List
)

// Of returns the profile of a driver. Fields and flags are those of the drivers in rancher/machine; of the external ones,
// those their projects document.
func Of(driver string) Profile {
	switch driver {
	case "digitalocean":
		return Profile{
			ID: "DropletID", ProviderID: "digitalocean://{DropletID}", Zone: "{Region}", Private: []string{"PrivateIPAddress"},
			// docs.digitalocean.com, API reference, Tags: letters, numbers, colons, dashes and underscores, at most 255.
			Tags:       TagFlag{Flag: "digitalocean-tags", Form: Words, Characters: ":_-", MaxKey: 255},
			KeyInPlace: true, KeyUnless: []string{"digitalocean-ssh-key-fingerprint", "digitalocean-ssh-key-path"},
		}
	case "amazonec2":
		return Profile{
			ID: "InstanceId", ProviderID: "aws:///{Zone}/{InstanceId}", Zone: "{Zone}", Private: []string{"PrivateIPAddress"},
			Place: map[string]string{"Region": "amazonec2-region"},
			// AWS, "Tag your EC2 resources": key 128, value 256 characters; a comma would end the flag's item.
			Tags:    TagFlag{Flag: "amazonec2-tags", Form: Pairs, Characters: " +-=._:/@", MaxKey: 128, MaxValue: 256},
			KeyFile: "amazonec2-ssh-keypath", KeyUnless: []string{"amazonec2-keypair-name"},
		}
	case "azure":
		return Profile{
			ByName: true, Zone: "{AvailabilityZone}", Private: []string{"PrivateIPAddr"},
			ProviderID: "azure:///subscriptions/{SubscriptionID}/resourceGroups/{resourceGroup}/providers/Microsoft.Compute/virtualMachines/{MachineName}",
			Place: map[string]string{
				"Environment": "azure-environment", "SubscriptionID": "azure-subscription-id", "ResourceGroup": "azure-resource-group"},
			// Azure Resource Manager, "Tag resources": names of 512 characters without <>%&\?/, values of 256.
			Tags: TagFlag{Flag: "azure-tags", Form: Pairs, Characters: " +-=._:@", MaxKey: 512, MaxValue: 256},
		}
	case "google":
		return Profile{
			ByName: true, ProviderID: "gce://{Project}/{Zone}/{MachineName}", Zone: "{Zone}",
			Place: map[string]string{"Project": "google-project", "Zone": "google-zone"},
			// Compute Engine, "Label resources": small letters, digits, _ and -, at most 63 characters.
			Tags:       TagFlag{Flag: "google-vm-labels", Form: Pairs, Characters: "_-", Lower: true, MaxKey: 63, MaxValue: 63},
			KeyInPlace: true,
		}
	}
	return others(driver)
}

func others(driver string) Profile {
	switch driver {
	case "openstack":
		return Profile{
			ID: "MachineId", ProviderID: "openstack:///{MachineId}", Zone: "{AvailabilityZone}",
			Place:      map[string]string{"Region": "openstack-region"},
			KeyInPlace: true, KeyUnless: []string{"openstack-keypair-name", "openstack-private-key-file"},
		}
	case "rackspace":
		return Profile{ID: "MachineId"}
	case "exoscale":
		return Profile{
			ID: "Id", ProviderID: "exoscale://{Id}", Zone: "{AvailabilityZone}", KeyInPlace: true, KeyUnless: []string{"exoscale-ssh-key"},
		}
	case "vmwarevsphere":
		// The driver looks its server up by name in the folder, so that GetState finds it before the record names it.
		return Profile{
			ID: "MachineId", ByName: true, InSteps: true, ProviderID: "vsphere://{MachineId}", KeyInPlace: true,
			// Configuration parameters, whose values have no form; what begins with guestinfo a guest could change.
			Tags:           TagFlag{Flag: "vmwarevsphere-cfgparam", Form: List, Characters: "_-.", MaxKey: 80, MaxValue: 255},
			UserDataUnless: map[string]string{"vmwarevsphere-creation-type": "legacy"},
		}
	case "vmwarevcloudair":
		return Profile{ID: "VAppID", ProviderID: ""}
	case "softlayer":
		return Profile{ID: "Id"}
	case "pod":
		return Profile{ByName: true}
	case "generic":
		return Profile{NoServer: true, NeedsKey: "generic-ssh-key"}
	case "none", "noop":
		return Profile{NoServer: true}
	case "linode":
		return Profile{
			ID: "InstanceID", ProviderID: "linode://{InstanceID}", Zone: "{Region}", Private: []string{"PrivateIPAddress"},
			Tags: TagFlag{Flag: "linode-tags", Form: Words, Characters: ":_-.", MaxKey: 50},
		}
	case "hetzner":
		return Profile{
			ID: "ServerID", ProviderID: "hcloud://{ServerID}", Zone: "{Location}",
			Tags: TagFlag{Flag: "hetzner-server-label", Form: List, Characters: "_-.", MaxKey: 63, MaxValue: 63},
		}
	}
	return Profile{}
}

// HasLister tells whether package finder can list the servers of a driver that carry our tags.
func HasLister(driver string) bool { return slices.Contains(Listers(), driver) }

// Listers are the drivers of which HasLister is true.
func Listers() []string {
	return []string{"amazonec2", "azure", "digitalocean", "google", "vmwarevsphere"}
}

// FinderKind is by what package finder recognises a server.
type FinderKind string

// Kinds of finders.
const (
	// NoFinder: there is none.
	NoFinder FinderKind = ""
	// ByTag goes by the tag with the machine's UID.
	ByTag FinderKind = "tag"
	// ByNameAndKey goes by the server's name, and proves by its SSH key whose it is.
	ByNameAndKey FinderKind = "name and SSH key"
)

// FinderOf tells by what servers of a driver are found again whose id was lost.
func FinderOf(driver string) FinderKind {
	switch driver {
	case "amazonec2", "azure", "digitalocean", "google":
		return ByTag
	case "openstack":
		return ByNameAndKey
	}
	return NoFinder
}

// HasFinder tells whether package finder can find servers of a driver again.
func HasFinder(driver string) bool { return FinderOf(driver) != NoFinder }
