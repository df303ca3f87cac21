package crdgen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// topLevelNames are the names that every Kubernetes object has, and those that the kinds add to a
// driver's fields. A flag that would get one of them keeps its whole name.
var topLevelNames = map[string]bool{
	"apiVersion": true, "kind": true, "metadata": true, "status": true,
	CommonField: true, ProviderIDField: true,
}

// isTaken reports whether one of those names differs only in case: providerId beside providerID
// would be mistaken for it. An empty name is never valid for a field.
func isTaken(name string) bool {
	for taken := range topLevelNames {
		if strings.EqualFold(taken, name) {
			return true
		}
	}
	return name == ""
}

// assignNames gives every flag its own field name, derived from the flag's. Flags with the driver's
// prefix choose first; a flag whose name is then taken, or reserved by Kubernetes, keeps its whole
// name.
func assignNames(driverName string, flags []Flag) (map[string]string, error) {
	names, takenBy := map[string]string{}, map[string]string{}
	// The order is by name, prefixed flags first, so that names do not depend on the order in which
	// a driver lists its flags.
	isForeign := func(flag Flag) int {
		if strings.HasPrefix(flag.Name, driverName+"-") {
			return 0
		}
		return 1
	}
	ordered := slices.SortedStableFunc(slices.Values(flags), func(a, b Flag) int {
		return cmp.Or(cmp.Compare(isForeign(a), isForeign(b)), strings.Compare(a.Name, b.Name))
	})
	for _, given := range ordered {
		flag := given.Name
		// If another word stands in the place of the driver's prefix, it is cut as in Rancher
		// (rancher-provv2.md §2.3), so that manifests written for Rancher apply. A flag of one word
		// is kept whole.
		short, prefixed := strings.CutPrefix(flag, driverName+"-")
		if !prefixed {
			short = flag[strings.IndexByte(flag, '-')+1:]
		}
		name := lowerCamel(short)
		if isTaken(name) || takenBy[name] != "" {
			name = lowerCamel(flag)
		}
		if other := takenBy[name]; other != "" {
			return nil, fmt.Errorf("flags --%s and --%s would both become the field %q", other, flag, name)
		}
		if isTaken(name) {
			return nil, fmt.Errorf("flag --%s would become the field %q, which has another meaning already", flag, name)
		}
		names[flag], takenBy[name] = name, flag
	}
	return names, nil
}

// lowerCamel joins the parts between dashes and dots; each but the first starts with a capital
// letter.
func lowerCamel(name string) string {
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '.' })
	for i, part := range parts {
		if i == 0 {
			parts[i] = strings.ToLower(part[:1]) + part[1:]
			continue
		}
		parts[i] = strings.ToUpper(part[:1]) + part[1:]
	}
	return strings.Join(parts, "")
}

// fold makes spellings comparable: sshKeyPath, sshKeypath and ssh-key-path are one.
func fold(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", ".", "", "_", "").Replace(name))
}
