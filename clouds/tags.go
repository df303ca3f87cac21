package clouds

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// TagFlag is a driver's flag for tags or labels.
type TagFlag struct {
	// Flag's name; empty if the driver has none.
	Flag string
	// Form of the flag's value.
	Form TagForm
	// Characters are the characters that the cloud accepts besides letters and digits; Lower is
	// true if letters are made lower case.
	Characters string
	Lower      bool
	// MaxKey and MaxValue are maximum lengths; with Words and WordList, MaxKey is the maximum
	// length of the whole word.
	MaxKey, MaxValue int
	// Joint joins key and value in a word; the default is a colon.
	Joint string
	// Owned is the prefix of the key of the tag that tells the cloud's own controllers which
	// cluster a server belongs to; its value is "owned". Only for Pairs.
	Owned string
	// Short maps keys to shorter ones, so that their values are not cut.
	Short map[string]string
}

// TagForm is how a flag writes tags.
type TagForm int

// Forms of tag flags.
const (
	// NoTags: the driver has no flag for tags.
	NoTags TagForm = iota
	// Words are comma-separated words; a tag becomes key:value.
	Words
	// Pairs are comma-separated keys and values in turn.
	Pairs
	// List is a list of key=value.
	List
	// WordList is a list of words; a tag becomes key:value.
	WordList
)

// AddTags returns the value of the driver's tag flag with tags added to the user's value: a string,
// or a list for List and WordList. Our tags come first, so that an odd number of the user's items
// cannot shift them.
func (f TagFlag) AddTags(user any, tags map[string]string) any {
	items := f.Items(tags)
	if f.Form == List || f.Form == WordList {
		given, _ := user.([]string)
		return append(items, given...)
	}
	given, _ := user.(string)
	// A key may occur only once, and the user's controllers use the user's tag.
	if cluster := tags[clusterTag]; f.Owned != "" && cluster != "" && !strings.Contains(given, f.Owned) {
		items = append(items, f.Owned+f.encode(cluster), "owned")
	}
	if strings.TrimSpace(given) != "" {
		items = append(items, given)
	}
	return strings.Join(items, ",")
}

// Ours returns the first of the user's tags whose key is reserved, because Drover finds and removes
// servers by it, or an empty string.
func (f TagFlag) Ours(user any, tags map[string]string) string {
	given, _ := user.([]string)
	if text, ok := user.(string); ok {
		given = strings.Split(text, ",")
	}
	for tag := range tags {
		key := strings.ToLower(f.Key(tag))
		for _, item := range given {
			rest, found := strings.CutPrefix(strings.ToLower(strings.TrimSpace(item)), key)
			if found && (rest == "" || rest[0] == '=' || strings.HasPrefix(rest, cmp.Or(f.Joint, ":"))) {
				return item
			}
		}
	}
	return ""
}

// clusterTag is the tag that names the cluster.
const clusterTag = "drover-cluster"

// Key is a tag's key as the flag writes it.
func (f TagFlag) Key(key string) string {
	if short, known := f.Short[key]; known {
		key = short
	}
	return f.encode(key)
}

// Value is a tag's value as the flag writes it, where keys and values are written apart.
func (f TagFlag) Value(value string) string { return cut(f.encode(value), f.MaxValue) }

// Items are tags as the flag writes them, in a fixed order.
func (f TagFlag) Items(tags map[string]string) []string {
	var items []string
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		key, value := f.Key(tag), f.encode(tags[tag])
		switch f.Form {
		case Words, WordList:
			items = append(items, cut(key+cmp.Or(f.Joint, ":")+value, f.MaxKey))
		case Pairs:
			items = append(items, cut(key, f.MaxKey), cut(value, f.MaxValue))
		case List:
			items = append(items, cut(key, f.MaxKey)+"="+cut(value, f.MaxValue))
		case NoTags:
		}
	}
	return items
}

// encode replaces the characters that the cloud does not accept.
func (f TagFlag) encode(text string) string {
	if f.Lower {
		text = strings.ToLower(text)
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(f.Characters, r):
			return r
		}
		return '-'
	}, text)
}

func cut(text string, length int) string {
	if length > 0 && len(text) > length {
		return text[:length]
	}
	return text
}
