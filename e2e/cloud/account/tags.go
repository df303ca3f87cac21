package account

import (
	"regexp"
	"slices"
	"strconv"

	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/ledger"
)

var tagName = regexp.MustCompile(`^[a-zA-Z0-9_:-]{1,255}$`)

func validateTags(tags []string) error {
	for _, tag := range tags {
		if !tagName.MatchString(tag) {
			return Unprocessable("Tag name may only contain letters, numbers, colons, dashes, and underscores")
		}
	}
	return nil
}

func uniqueSorted(tags []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(tags)))
}

// Tag returns one tag.
func (a *Account) Tag(name string) (godo.Tag, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.tags[name] {
		return godo.Tag{}, NotFound()
	}
	return a.renderTag(name), nil
}

func (a *Account) renderTag(name string) godo.Tag {
	tagged := a.selectDroplets("", name)
	resources := &godo.TaggedResources{
		Count:    len(tagged),
		Droplets: &godo.TaggedDropletsResources{Count: len(tagged)},
		Images:   &godo.TaggedImagesResources{}, Volumes: &godo.TaggedVolumesResources{},
		VolumeSnapshots: &godo.TaggedVolumeSnapshotsResources{}, Databases: &godo.TaggedDatabasesResources{},
	}
	if len(tagged) > 0 {
		resources.LastTaggedURI = "https://api.digitalocean.com/v2/droplets/" + strconv.Itoa(tagged[len(tagged)-1].ID)
		resources.Droplets.LastTaggedURI = resources.LastTaggedURI
	}
	return godo.Tag{Name: name, Resources: resources}
}

// CreateTag makes a tag; one that exists is answered as it is.
func (a *Account) CreateTag(caller Caller, name string) (godo.Tag, error) {
	if err := validateTags([]string{name}); err != nil {
		return godo.Tag{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.addTags(caller, []string{name})
	return a.renderTag(name), nil
}

func (a *Account) addTags(caller Caller, names []string) {
	for _, name := range uniqueSorted(names) {
		if a.tags[name] {
			continue
		}
		a.tags[name] = true
		a.record(caller, ledger.Entry{Op: ledger.OpCreated, Kind: ledger.KindTag, ID: name, Name: name})
	}
}

// DeleteTag removes a tag from the account and from every droplet.
func (a *Account) DeleteTag(caller Caller, name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.tags[name] {
		return NotFound()
	}
	for _, d := range a.selectDroplets("", name) {
		d.Tags = slices.DeleteFunc(slices.Clone(d.Tags), func(tag string) bool { return tag == name })
		a.record(caller, d.entry(ledger.OpChanged))
	}
	delete(a.tags, name)
	a.record(caller, ledger.Entry{Op: ledger.OpRemoved, Kind: ledger.KindTag, ID: name, Name: name})
	return nil
}
