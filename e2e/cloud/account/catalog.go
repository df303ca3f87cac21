package account

import (
	"strconv"

	"github.com/digitalocean/godo"
)

// allRegions are where every size and image is available.
func allRegions() []string {
	return []string{"ams3", "blr1", "fra1", "lon1", "nyc1", "nyc2", "nyc3", "sfo2", "sfo3", "sgp1", "syd1", "tor1"}
}

// Regions returns the regions of the catalog.
func Regions() []godo.Region {
	names := map[string]string{
		"ams3": "Amsterdam 3", "blr1": "Bangalore 1", "fra1": "Frankfurt 1", "lon1": "London 1", "nyc1": "New York 1",
		"nyc2": "New York 2", "nyc3": "New York 3", "sfo2": "San Francisco 2", "sfo3": "San Francisco 3",
		"sgp1": "Singapore 1", "syd1": "Sydney 1", "tor1": "Toronto 1",
	}
	sizes := make([]string, 0, 8)
	for _, size := range Sizes() {
		sizes = append(sizes, size.Slug)
	}
	regions := make([]godo.Region, 0, len(names))
	for _, slug := range allRegions() {
		regions = append(regions, godo.Region{
			Slug: slug, Name: names[slug], Available: true, Sizes: sizes,
			Features: []string{"backups", "ipv6", "metadata", "private_networking"},
		})
	}
	return regions
}

// Sizes returns the sizes of the catalog.
func Sizes() []godo.Size {
	size := func(slug string, memory, vcpus, disk int, monthly float64) godo.Size {
		return godo.Size{
			Slug: slug, Memory: memory, Vcpus: vcpus, Disk: disk, Transfer: 1, PriceMonthly: monthly,
			PriceHourly: monthly / 672, Regions: allRegions(), Available: true, Description: "Basic",
		}
	}
	return []godo.Size{
		size("s-1vcpu-512mb-10gb", 512, 1, 10, 4),
		size("s-1vcpu-1gb", 1024, 1, 25, 6),
		size("s-1vcpu-2gb", 2048, 1, 50, 12),
		size("s-2vcpu-2gb", 2048, 2, 60, 18),
		size("s-2vcpu-4gb", 4096, 2, 80, 24),
		size("s-4vcpu-8gb", 8192, 4, 160, 48),
		size("c-2", 4096, 2, 25, 42),
		size("g-2vcpu-8gb", 8192, 2, 25, 63),
	}
}

// Images returns the images of the catalog. Real servers all boot the same
// root file system, whatever the image is called.
func Images() []godo.Image {
	image := func(id int, slug, distribution, name string) godo.Image {
		return godo.Image{
			ID: id, Name: name, Type: "base", Distribution: distribution, Slug: slug, Public: true, Regions: allRegions(),
			MinDiskSize: 7, SizeGigaBytes: 2.5, Created: "2024-01-01T00:00:00Z", Status: "available", Tags: []string{},
		}
	}
	return []godo.Image{
		image(72067660, "ubuntu-20-04-x64", "Ubuntu", "20.04 (LTS) x64"),
		image(112929454, "ubuntu-22-04-x64", "Ubuntu", "22.04 (LTS) x64"),
		image(155133621, "ubuntu-24-04-x64", "Ubuntu", "24.04 (LTS) x64"),
		image(139080908, "debian-12-x64", "Debian", "12 x64"),
		image(152643100, "rockylinux-9-x64", "Rocky Linux", "9 x64"),
	}
}

// FindRegion returns the region with the slug.
func FindRegion(slug string) (godo.Region, bool) {
	for _, region := range Regions() {
		if region.Slug == slug {
			return region, true
		}
	}
	return godo.Region{}, false
}

// FindSize returns the size with the slug.
func FindSize(slug string) (godo.Size, bool) {
	for _, size := range Sizes() {
		if size.Slug == slug {
			return size, true
		}
	}
	return godo.Size{}, false
}

// FindImage returns the image with the slug or id.
func FindImage(identifier string) (godo.Image, bool) {
	for _, image := range Images() {
		if image.Slug == identifier || strconv.Itoa(image.ID) == identifier {
			return image, true
		}
	}
	return godo.Image{}, false
}
