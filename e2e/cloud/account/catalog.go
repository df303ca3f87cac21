package account

import (
	"slices"

	"github.com/digitalocean/godo"
)

// images can be asked for by their slug. Real servers all boot the same root file system, whatever the image is called.
var images = []string{"ubuntu-20-04-x64", "ubuntu-22-04-x64", "ubuntu-24-04-x64", "debian-12-x64", "rockylinux-9-x64"}

// Regions returns the regions of the catalog.
func Regions() []godo.Region {
	var regions []godo.Region
	for _, slug := range []string{"ams3", "blr1", "fra1", "lon1", "nyc1", "nyc2", "nyc3", "sfo2", "sfo3", "sgp1", "syd1", "tor1"} {
		regions = append(regions, godo.Region{Slug: slug, Name: slug, Available: true, Features: []string{"backups", "ipv6", "metadata", "private_networking"}})
	}
	return regions
}

func findRegion(slug string) (godo.Region, bool) {
	at := slices.IndexFunc(Regions(), func(region godo.Region) bool { return region.Slug == slug })
	if at < 0 {
		return godo.Region{}, false
	}
	return Regions()[at], true
}

func findSize(slug string) (godo.Size, bool) {
	for _, size := range []godo.Size{
		{Slug: "s-1vcpu-512mb-10gb", Memory: 512, Vcpus: 1, Disk: 10},
		{Slug: "s-1vcpu-1gb", Memory: 1024, Vcpus: 1, Disk: 25},
		{Slug: "s-1vcpu-2gb", Memory: 2048, Vcpus: 1, Disk: 50},
		{Slug: "s-2vcpu-2gb", Memory: 2048, Vcpus: 2, Disk: 60},
		{Slug: "s-2vcpu-4gb", Memory: 4096, Vcpus: 2, Disk: 80},
		{Slug: "s-4vcpu-8gb", Memory: 8192, Vcpus: 4, Disk: 160},
		{Slug: "c-2", Memory: 4096, Vcpus: 2, Disk: 25},
		{Slug: "g-2vcpu-8gb", Memory: 8192, Vcpus: 2, Disk: 25},
	} {
		if size.Slug == slug {
			size.Available = true
			return size, true
		}
	}
	return godo.Size{}, false
}
