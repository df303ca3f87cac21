package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

var _ = add(Cloud{
	Driver: "vmwarevsphere", ConfigHasCommon: true, EnvPrefix: "VSPHERE",
	// The driver looks its server up by name in the folder, so that GetState finds it before the
	// record names it.
	ID: "MachineId", ByName: true, InSteps: true, ProviderID: "vsphere://{MachineId}", KeyInPlace: true,
	// Configuration parameters, whose values are free text. A guest could change parameters with
	// the prefix guestinfo. A clone inherits the parameters of its source.
	Tags: TagFlag{Flag: "vmwarevsphere-cfgparam", Form: List, Characters: "_-.", MaxKey: 80, MaxValue: 255}, TagsCopied: true,
	// The driver parses the data as YAML, adds its user, and puts it on an ISO image: no documented
	// limit.
	UserData: UserData{Habit: PathAtCreate, Flag: "vmwarevsphere-cloud-config", CloudConfigOnly: true,
		Unless: map[string]string{"vmwarevsphere-creation-type": "legacy"}},
	Lists: true,
	NodeDriver: &NodeDriver{Description: "VMware vSphere.", Active: true,
		Public: []string{"username", "vcenter", "vcenterPort"}, Private: []string{"password"}, Passwords: []string{"sshPassword"},
		Defaults: map[string]string{"vcenterPort": "443"}, Files: map[string]string{"cloudConfig": "cloud-config"}},
	Beside: "its disks and the ISO image with its user data",
	words: words{
		// vCenter's English messages, and the names of its faults, which replace a missing message.
		rules: []rule{
			{rkev1.ClassInvalid, []string{"timeout can not be negative"}},
			{rkev1.ClassUnauthorized, []string{"incorrect user name or password", "cannot complete login", "permission to perform this operation was denied",
				"nopermission", "insufficient privilege", "insufficient permission", "session is not authenticated", "notauthenticated", "invalidlogin", "login failure"}},
			{rkev1.ClassQuota, []string{"not enough licenses", "notenoughlicenses"}},
			{rkev1.ClassCapacity, []string{"insufficient", "no space left", "not enough space", "cannot allocate", "no datastore-cluster recommendations",
				"no host is compatible"}},
			{rkev1.ClassTransient, []string{"another task is already in progress", "taskinprogress", "not allowed in the current ", "invalidstate",
				"resourceinuse", "' is in use.",
				"invalidpowerstate", "cannot communicate with the host", "hostnotconnected", "hostcommunication", "failed to lock the file", "filelocked",
				"no ip despite waiting", "concurrentaccess", "object has already been deleted"}},
			{rkev1.ClassInvalid, []string{"invalid configuration", "' not found", "duplicate name", "duplicatename", "the name '", "resolves to multiple",
				"no default ", "specified parameter was not correct", "invalidargument", "needs a vm name to clone from", "content library",
				"license or esxi version prohibits", "restrictedversion", "invalid datastore path", "invaliddatastore", "not supported", "is not a template",
				"invalidname", "no datastores for this vm", "unsupported machineos", "more than one result", "createcloudinitiso: path lookup",
				"notsupported", "invalid"}},
		},
		gone: []string{"has already been deleted or has not been completely created"},
		// The driver looks for its server below all of these.
		elsewhere: []string{"datacenter '", "datastore '", "network '", "folder '", "resource pool '", "host '", "cluster '", "library"},
		// The fault DuplicateName of the vSphere API, by its name or in vCenter's words.
		taken: [][]string{{"duplicatename"}, {"the name '", "already exists"}},
	},
})
