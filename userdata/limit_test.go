package userdata_test

import (
	"cmp"
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/userdata"
)

// noise is a cloud-config of a size that gzip cannot make smaller than three quarters.
func noise(size int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	raw := make([]byte, size)
	for i := range raw {
		raw[i] = byte(random.UintN(256))
	}
	text := "#cloud-config\nx: " + base64.StdEncoding.EncodeToString(raw)
	return []byte(text[:size])
}

// limitOf is the largest user data of a driver, measured as its cloud does.
func limitOf(driver string) int {
	return cmp.Or(clouds.Of(driver).UserData.Limit.Bytes, userdata.MaxBytes)
}

// TestFit_at_the_limit compares the last size that fits with the first that does not.
func TestFit_at_the_limit(t *testing.T) {
	for driver, c := range map[string]struct {
		largest int
		zips    bool
	}{
		"digitalocean":  {largest: 65536},
		"google":        {largest: 262144},
		"pod":           {largest: 900 << 10},
		"amazonec2":     {largest: 16384, zips: true},
		"azure":         {largest: 65535, zips: true},
		"openstack":     {largest: 49149, zips: true},
		"rackspace":     {largest: 49149, zips: true},
		"exoscale":      {largest: 24576, zips: true},
		"vmwarevsphere": {largest: userdata.MaxBytes},
		"any-plugin":    {largest: userdata.MaxBytes},
	} {
		t.Run(driver, func(t *testing.T) {
			data := noise(c.largest)
			got, err := userdata.Fit(driver, data)
			require.NoError(t, err)
			require.Equal(t, data, got, "what fits is not touched")
			over := append(data, '\n')
			got, err = userdata.Fit(driver, over)
			if c.zips {
				require.NoError(t, err)
				got, err = userdata.Unzip(got)
				require.NoError(t, err)
				require.Equal(t, over, got)
				got, err = userdata.Fit(driver, noise(2*c.largest))
			}
			var tooLarge *userdata.TooLargeError
			require.ErrorAs(t, err, &tooLarge)
			require.Nil(t, got)
			require.Equal(t, limitOf(driver), tooLarge.Limit)
			require.Greater(t, tooLarge.Size, tooLarge.Limit)
			require.ErrorContains(t, err, "driver "+driver+" takes at most")
		})
	}
}

func TestFit_vsphere_takes_nothing_but_cloud_config(t *testing.T) {
	for format, text := range samples("MARKER") {
		got, err := userdata.Fit("vmwarevsphere", []byte(text))
		if format == userdata.CloudConfig || format == userdata.Empty {
			require.NoError(t, err, format)
			require.Equal(t, text, string(got))
			continue
		}
		require.ErrorIs(t, err, userdata.ErrCannotMerge, format)
		require.NotContains(t, err.Error(), "MARKER")
	}
}

// TestFit_what_a_driver_would_change: nutanix's driver would make another document of it, which cloud-init then cannot read.
func TestFit_what_a_driver_would_change(t *testing.T) {
	_, err := userdata.Fit("nutanix", []byte("#cloud-config\nruncmd: [\"printf 'MARKER\\\\n'\"]\n"))
	require.ErrorIs(t, err, userdata.ErrCannotMerge)
	require.ErrorContains(t, err, `every \n that is written out`)
	require.NotContains(t, err.Error(), "MARKER")
	got, err := userdata.UserData("nutanix", userdata.Input{Bootstrap: []byte("#!/bin/sh\nprintf 'x\\n'\n"), Hostname: "m1"})
	require.NoError(t, err, "a script goes in base64")
	require.NotContains(t, string(got), `\n`)
}

func TestUserData(t *testing.T) {
	got, err := userdata.UserData("vmwarevsphere", userdata.Input{User: []byte("#cloud-config\na: 1\n"), Bootstrap: []byte("#!/bin/sh\n")})
	require.NoError(t, err, "a script becomes part of the cloud-config")
	require.Equal(t, userdata.CloudConfig, userdata.Detect(got))

	got, err = userdata.UserData("vmwarevsphere", userdata.Input{Bootstrap: []byte("## template: jinja\n#cloud-config\nruncmd: [größe]\n"), Hostname: "pool-1"})
	require.NoError(t, err, "kubeadm's bootstrap provider adds the header to everything")
	require.Equal(t, "#cloud-config\nruncmd: [größe]\nhostname: \"pool-1\"\n", string(got))
	_, err = userdata.UserData("vmwarevsphere", userdata.Input{Bootstrap: []byte("## template: jinja\n#cloud-config\na: '{{ ds.meta_data }}'\n")})
	require.ErrorIs(t, err, userdata.ErrCannotMerge, "only the server can render that")
	_, err = userdata.UserData("digitalocean", userdata.Input{User: []byte("{}"), Bootstrap: []byte("#!/bin/sh\n")})
	require.ErrorIs(t, err, userdata.ErrCannotMerge)
	var tooLarge *userdata.TooLargeError
	_, err = userdata.UserData("digitalocean", userdata.Input{User: noise(70_000)})
	require.ErrorAs(t, err, &tooLarge)
	got, err = userdata.UserData("digitalocean", userdata.Input{Bootstrap: []byte("#!/bin/sh\n" + strings.Repeat("echo x\n", 20_000))})
	require.NoError(t, err, "a script is packed, so that more fits")
	require.Less(t, len(got), 4096)
	got, err = userdata.UserData("digitalocean", userdata.Input{})
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestUnzip(t *testing.T) {
	whole := zipped(t, "#cloud-config\na: 1\n")
	broken := append([]byte(nil), whole...)
	broken[len(broken)-6] ^= 0xff
	for name, c := range map[string]struct {
		data []byte
		err  string
	}{
		"whole":           {data: whole},
		"cut off":         {data: whole[:len(whole)-4], err: "unzipping"},
		"only the magic":  {data: whole[:2], err: "unzipping"},
		"a wrong sum":     {data: broken, err: "unzipping"},
		"largest":         {data: make([]byte, userdata.MaxBytes)},
		"too large":       {data: make([]byte, userdata.MaxBytes+1), err: "larger than 4194304 bytes"},
		"too large after": {data: zipped(t, strings.Repeat("x", userdata.MaxBytes+1)), err: "larger than 4194304 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := userdata.Unzip(c.data)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
		})
	}
	_, err := userdata.Merge(userdata.Input{User: whole[:10]})
	require.ErrorContains(t, err, "the user's own user data", "the error says which of the two")
	_, err = userdata.Merge(userdata.Input{Bootstrap: whole[:10]})
	require.ErrorContains(t, err, "the bootstrap data", "the error says which of the two")
}
