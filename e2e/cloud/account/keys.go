package account

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/digitalocean/godo"
	"golang.org/x/crypto/ssh"

	"github.com/drover-project/drover/e2e/cloud/ledger"
)

// The limits of a registered key.
const (
	maxKeyName = 255
	maxKey     = 16 << 10
)

// Keys returns all keys, oldest first.
func (a *Account) Keys() []godo.Key {
	a.mu.Lock()
	defer a.mu.Unlock()
	keys := slices.AppendSeq([]godo.Key{}, maps.Values(a.keys)) // without keys the API says [], not null
	slices.SortFunc(keys, func(x, y godo.Key) int { return cmp.Compare(x.ID, y.ID) })
	return keys
}

// Key returns the key with the given id or fingerprint.
func (a *Account) Key(identifier string) (godo.Key, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.findKey(identifier)
}

func (a *Account) findKey(identifier string) (godo.Key, error) {
	for _, key := range a.keys {
		if key.Fingerprint == identifier || strconv.Itoa(key.ID) == identifier {
			return key, nil
		}
	}
	return godo.Key{}, NotFound()
}

// CreateKey adds a public key; one already on the account is refused.
func (a *Account) CreateKey(caller Caller, request godo.KeyCreateRequest) (godo.Key, error) {
	if request.Name == "" {
		return godo.Key{}, Unprocessable("Name can't be blank")
	}
	if len(request.Name) > maxKeyName {
		return godo.Key{}, Unprocessable("Name is too long (maximum is 255 characters)")
	}
	// Exactly one key: a second line would become a second login on every server, and every server
	// would obey options before it.
	public, _, options, _, err := ssh.ParseAuthorizedKey([]byte(request.PublicKey))
	if err != nil || len(options) > 0 || len(request.PublicKey) > maxKey || strings.ContainsAny(strings.TrimSpace(request.PublicKey), "\r\n") {
		return godo.Key{}, Unprocessable("Key invalid, key should be of the format `ssh-<type> <key data> <optional comment>`")
	}
	fingerprint := ssh.FingerprintLegacyMD5(public)
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.findKey(fingerprint); err == nil {
		return godo.Key{}, Unprocessable("SSH Key is already in use on your account")
	}
	key := godo.Key{ID: a.nextKey, Name: request.Name, Fingerprint: fingerprint, PublicKey: request.PublicKey}
	a.nextKey++
	a.keys[key.ID] = key
	a.record(caller, ledger.Entry{Op: ledger.OpCreated, Kind: ledger.KindKey, ID: strconv.Itoa(key.ID), Name: key.Name})
	return key, nil
}

// DeleteKey removes a key. Keys that were installed on servers stay there.
func (a *Account) DeleteKey(caller Caller, identifier string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	key, err := a.findKey(identifier)
	if err != nil {
		return err
	}
	delete(a.keys, key.ID)
	a.record(caller, ledger.Entry{
		Op: ledger.OpRemoved, Kind: ledger.KindKey, ID: strconv.Itoa(key.ID), Name: key.Name,
	})
	return nil
}

var tagName = regexp.MustCompile(`^[a-zA-Z0-9_:-]{1,255}$`)

func validateTags(tags []string) error {
	for _, tag := range tags {
		if !tagName.MatchString(tag) {
			return Unprocessable("Tag name may only contain letters, numbers, colons, dashes, and underscores")
		}
	}
	return nil
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
	tagged := len(a.selectDroplets("", name))
	return godo.Tag{Name: name, Resources: &godo.TaggedResources{Count: tagged, Droplets: &godo.TaggedDropletsResources{Count: tagged}}}
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
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
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
