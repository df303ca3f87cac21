package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

var _ = add(Cloud{
	Driver: "vmwarevcloudair", EnvPrefix: "VCLOUDAIR", ID: "VAppID", UserData: UserData{Habit: None},
	NodeDriver: &NodeDriver{Description: "VMware vCloud Air.", Public: []string{"username"}, Private: []string{"password"}},
	Beside:     "its disks and the edge gateway's NAT and firewall rules for it",
	words: words{
		rules: []rule{
			{rkev1.ClassTransient, []string{"is busy"}},
			{rkev1.ClassInvalid, []string{"can't find ", "couldn't find a ", "mandatory params"}},
		},
		gone:      []string{"can't find vapp"},
		elsewhere: []string{"retreiving vdc", "refreshing vdc", "service list", "compute"},
		afterRequest: []string{"task", "customiz", "vapp before", "powering on", "edge gateway", "reconfigur", "session delete", "vapp doesn't",
			"decoding vapp", "refreshing vapp"},
	},
})
