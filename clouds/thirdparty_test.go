package clouds_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
)

// TestUserData_of_third_parties: how their sources take user data, where the flag that looks like it would do something else.
func TestUserData_of_third_parties(t *testing.T) {
	for driver, want := range map[string]clouds.UserData{
		"hetzner":    {Habit: clouds.PathAtCreate, Flag: "hetzner-user-data-file"},
		"vultr":      {Habit: clouds.Base64, Flag: "vultr-cloud-init-user-data"},
		"linode":     {Habit: clouds.None},
		"cloudscale": {Habit: clouds.PathAtCreate, Flag: "cloudscale-userdatafile"},
		"otc":        {Habit: clouds.Inline, Flag: "otc-user-data-raw"},
		"nutanix":    {Habit: clouds.Inline, Flag: "nutanix-cloud-init", CloudConfigOnly: true},
		"ionoscloud": {Habit: clouds.Inline, Flag: "ionoscloud-cloud-init", CloudConfigOnly: true},
		"harvester":  {Habit: clouds.PathAtCreate, Flag: "harvester-cloud-config", CloudConfigOnly: true},
		"ovh":        {Habit: clouds.PathEarly, Flag: "ovh-userdata"},
		"acme":       {Habit: clouds.Unknown},
	} {
		got := clouds.Of(driver).UserData
		require.Equal(t, want, clouds.UserData{Habit: got.Habit, Flag: got.Flag, CloudConfigOnly: got.CloudConfigOnly}, driver)
	}
	require.Equal(t, map[string]string{"hetzner-user-data-from-file": "false"}, clouds.Of("hetzner").UserData.With)
	require.Equal(t, map[string]string{"vultr-cloud-init-from-file": "false"}, clouds.Of("vultr").UserData.With, "with the switch most keys are lost")
}

// TestClouds_are_whole: what is written down of a driver is about that driver, and is told to its users in sentences.
func TestClouds_are_whole(t *testing.T) {
	for _, c := range clouds.All() {
		t.Run(c.Driver, func(t *testing.T) {
			flags := append([]string{c.Tags.Flag, c.KeyFile, c.NeedsKey, c.NameFlag}, c.KeyUnless...)
			flags = append(flags, c.Finder.Needs...)
			flags = append(append(append(flags, c.UserData.Flag), c.UserData.Excludes...), c.UserData.Merges...)
			for flag, value := range c.UserData.With {
				flags = append(flags, flag)
				require.Contains(t, []string{"true", "false"}, value)
			}
			require.Equal(t, c.UserData.Habit == clouds.None, c.UserData.Flag == "", "a habit has a flag")
			require.NotContains(t, c.UserData.Excludes, c.UserData.Flag)
			for _, flag := range flags {
				require.True(t, flag == "" || strings.HasPrefix(flag, c.Driver+"-"), "%q is no flag of %s", flag, c.Driver)
			}
			require.NotEqual(t, clouds.Unknown, c.UserData.Habit, "a file says how the driver takes user data")
			require.Regexp(t, `^([A-Z].*[.])?$`, c.Leftovers)
			require.Equal(t, c.Tags.Form == clouds.NoTags, c.Tags.Flag == "")
			require.Equal(t, c.Driver, clouds.Of(c.Driver).Driver)
		})
	}
}

// TestNothingMade_of_late_drivers reads testdata/refused.txt: what a driver says after the cloud has agreed, while its record names
// no server yet, is never taken for a refusal, whatever its class.
func TestNothingMade_of_late_drivers(t *testing.T) {
	for _, line := range table(t, "refused.txt", 3) {
		require.Contains(t, []string{"refused", "agreed"}, line[0])
		cloud := clouds.Of(line[1])
		class := cloud.Classify(line[2])
		require.NotContains(t, []string{rkev1.ClassTransient, rkev1.ClassUnknown}, class, "a class that could mean a refusal: %s", line)
		require.Equal(t, line[0] == "refused", cloud.NothingMade(class, line[2]), line)
	}
}

// TestServerID_of_proxmox: the record has a number before there is a virtual machine, which another client may have taken since. A
// driver whose Remove believes it would destroy that one.
func TestServerID_of_proxmox(t *testing.T) {
	cloud := clouds.Of("proxmoxve")
	require.Empty(t, cloud.ServerID(clouds.Record{"VMID": "105", "VMUUID": "", "MachineName": "m1"}))
	require.Equal(t, "6f0b", cloud.ServerID(clouds.Record{"VMID": "105", "VMUUID": "6f0b"}))
}
