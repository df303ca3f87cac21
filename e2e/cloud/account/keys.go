package account

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/digitalocean/godo"
	"golang.org/x/crypto/ssh"

	"github.com/drover-project/drover/e2e/cloud/ledger"
)

// Keys returns all keys, oldest first.
func (a *Account) Keys() []godo.Key {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.SortedFunc(maps.Values(a.keys), func(x, y godo.Key) int { return cmp.Compare(x.ID, y.ID) })
}

// Key returns the key with the given id or fingerprint.
func (a *Account) Key(identifier string) (godo.Key, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.findKey(identifier)
}

func (a *Account) findKey(identifier string) (godo.Key, error) {
	id, err := strconv.Atoi(identifier)
	if err == nil {
		if key, ok := a.keys[id]; ok {
			return key, nil
		}
		return godo.Key{}, NotFound()
	}
	for _, key := range a.keys {
		if key.Fingerprint == identifier {
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
	public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(request.PublicKey))
	if err != nil {
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
	data, err := json.Marshal(key)
	if err != nil {
		return godo.Key{}, err
	}
	a.record(caller, ledger.Entry{
		Op: ledger.OpCreated, Kind: ledger.KindKey, ID: strconv.Itoa(key.ID), Name: key.Name, Data: data,
	})
	return key, nil
}

// RenameKey gives a key another name.
func (a *Account) RenameKey(identifier, name string) (godo.Key, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key, err := a.findKey(identifier)
	if err != nil {
		return godo.Key{}, err
	}
	if name == "" {
		return godo.Key{}, Unprocessable("Name can't be blank")
	}
	key.Name = name
	a.keys[key.ID] = key
	return key, nil
}

// DeleteKey removes a key. Servers keep what was installed on them.
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
