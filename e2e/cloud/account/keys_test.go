package account_test

import (
	"strings"
	"testing"

	"github.com/digitalocean/godo"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/ledger"
)

const (
	someKey   = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPLtdQqX5R9+CD9KFhZW7PrPdGTg5kZMJWkzNxOoV0W8 someone@host"
	somePrint = "d3:37:99:1d:60:49:79:47:2d:ce:e4:99:0c:0d:79:4a"
)

func TestAKeyIsFoundByIDAndFingerprint(t *testing.T) {
	b := newBed(t, account.Options{})
	key, err := b.CreateKey(caller, godo.KeyCreateRequest{Name: "k", PublicKey: someKey})
	require.NoError(t, err)
	require.Equal(t, godo.Key{ID: 20_000_001, Name: "k", Fingerprint: somePrint, PublicKey: someKey}, key)
	for _, identifier := range []string{"20000001", somePrint} {
		got, err := b.Key(identifier)
		require.NoError(t, err)
		require.Equal(t, key, got)
	}
	for _, identifier := range []string{"", "20000002", "-1", strings.ToUpper(somePrint), "k", "99999999999999999999"} {
		_, err := b.Key(identifier)
		require.True(t, account.IsNotFound(err), identifier)
	}
}

func TestKeysAreRefusedAsTheAPIDoes(t *testing.T) {
	b := newBed(t, account.Options{})
	_, err := b.CreateKey(caller, godo.KeyCreateRequest{Name: "k", PublicKey: someKey})
	require.NoError(t, err)
	const invalid = "Key invalid, key should be of the format `ssh-<type> <key data> <optional comment>`"
	other := publicKey(t)
	for name, test := range map[string]struct{ name, key, want string }{
		"no name":         {"", other, "Name can't be blank"},
		"long name":       {strings.Repeat("k", 256), other, "Name is too long (maximum is 255 characters)"},
		"no key":          {"k", "", invalid},
		"nonsense":        {"k", "nonsense", invalid},
		"only the type":   {"k", "ssh-ed25519", invalid},
		"cut":             {"k", someKey[:40], invalid},
		"private":         {"k", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n", invalid},
		"two keys":        {"k", strings.TrimSpace(other) + "\n" + publicKey(t), invalid},
		"hidden second":   {"k", strings.TrimSpace(other) + "\rssh-rsa AAAA", invalid},
		"without end":     {"k", strings.TrimSpace(other) + strings.Repeat("x", 16<<10), invalid},
		"the same":        {"other", someKey, "SSH Key is already in use on your account"},
		"another comment": {"other", strings.Replace(someKey, "someone", "anyone", 1), "SSH Key is already in use on your account"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.CreateKey(caller, godo.KeyCreateRequest{Name: test.name, PublicKey: test.key})
			require.EqualError(t, err, "422 unprocessable_entity: "+test.want)
		})
	}
	require.Len(t, b.Keys(), 1)
	require.Equal(t, []string{"created"}, b.ops(ledger.KindKey))
}

func TestARenamedKeyKeepsItsNameOverARestart(t *testing.T) {
	b := newBed(t, account.Options{})
	key, err := b.CreateKey(caller, godo.KeyCreateRequest{Name: "before", PublicKey: someKey})
	require.NoError(t, err)
	for _, name := range []string{"", strings.Repeat("k", 256)} {
		_, err = b.RenameKey(caller, somePrint, name)
		require.ErrorContains(t, err, "422 unprocessable_entity: Name ")
	}
	renamed, err := b.RenameKey(caller, somePrint, "after")
	require.NoError(t, err)
	key.Name = "after"
	require.Equal(t, key, renamed)
	again := b.restart(t)
	require.Equal(t, []godo.Key{key}, again.Keys())
	require.Equal(t, "after", again.ledger.Live(ledger.KindKey)[0].Name)
}

func TestADeletedKeyStaysDeletedAndItsIDUnused(t *testing.T) {
	b := newBed(t, account.Options{})
	require.Equal(t, []godo.Key{}, b.Keys())
	key, err := b.CreateKey(caller, godo.KeyCreateRequest{Name: "k", PublicKey: someKey})
	require.NoError(t, err)
	require.NoError(t, b.DeleteKey(caller, somePrint))
	require.True(t, account.IsNotFound(b.DeleteKey(caller, somePrint)))
	again := b.restart(t)
	require.Empty(t, again.Keys())
	second, err := again.CreateKey(caller, godo.KeyCreateRequest{Name: "k", PublicKey: someKey})
	require.NoError(t, err)
	require.Equal(t, key.ID+1, second.ID)
}

func TestAServerGetsEachKeyOnce(t *testing.T) {
	b := newBed(t, account.Options{})
	first, err := b.CreateKey(caller, godo.KeyCreateRequest{Name: "a", PublicKey: someKey})
	require.NoError(t, err)
	other := publicKey(t)
	_, err = b.CreateKey(caller, godo.KeyCreateRequest{Name: "b", PublicKey: other})
	require.NoError(t, err)
	request := ask("web-1")
	request.Keys = []string{"20000001", first.Fingerprint, "20000002", "20000001"}
	_, _, err = b.CreateDroplets(caller, request, account.Boot{})
	require.NoError(t, err)
	require.Contains(t, string(b.ledger.Live(ledger.KindDroplet)[0].Data), `"keys":["`+someKey+`","`+strings.TrimSpace(other)+`\n"]`)
}

func TestTagsCountTheirDroplets(t *testing.T) {
	b := newBed(t, account.Options{})
	one := b.create(t, "one", "blue")
	two := b.create(t, "two")
	tag, err := b.CreateTag(caller, "red")
	require.NoError(t, err)
	require.Equal(t, 0, tag.Resources.Count)
	require.NoError(t, b.TagDroplets(caller, "red", []int{one.ID, two.ID, two.ID}, true))
	require.NoError(t, b.TagDroplets(caller, "red", []int{one.ID}, true), "twice is once")
	tag, err = b.CreateTag(caller, "red")
	require.NoError(t, err, "one that exists is answered as it is")
	require.Equal(t, 2, tag.Resources.Count)
	require.Equal(t, 2, tag.Resources.Droplets.Count)
	require.Equal(t, "https://api.digitalocean.com/v2/droplets/100000002", tag.Resources.LastTaggedURI)
	require.Equal(t, []string{"blue", "red"}, b.Droplets("one", "")[0].Tags)

	require.True(t, account.IsNotFound(b.TagDroplets(caller, "blue", []int{two.ID, 7}, true)))
	require.Empty(t, b.Droplets("two", "blue"), "all or none")
	require.NoError(t, b.TagDroplets(caller, "red", []int{one.ID}, false))
	require.NoError(t, b.TagDroplets(caller, "red", []int{one.ID}, false), "taken off twice")
	require.Equal(t, []string{"blue"}, b.Droplets("one", "")[0].Tags)
}

func TestADeletedTagLeavesItsDroplets(t *testing.T) {
	b := newBed(t, account.Options{})
	b.create(t, "one", "blue", "red")
	require.NoError(t, b.DeleteTag(caller, "blue"))
	again := b.restart(t)
	require.Equal(t, []string{"red"}, again.Droplets("one", "")[0].Tags)
	names := []string{}
	for _, tag := range again.Tags() {
		names = append(names, tag.Name)
	}
	require.Equal(t, []string{"red"}, names)
	_, err := again.CreateTag(caller, "no blanks")
	require.EqualError(t, err, "422 unprocessable_entity: Tag name may only contain letters, numbers, colons, dashes, and underscores")
}
