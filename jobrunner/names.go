package jobrunner

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
)

const (
	// maxName is the longest name that is good for every object, label value and hostname.
	maxName = 63
	// MinInstanceName is the shortest limit that can be asked for; below, the hash would be all
	// there is.
	MinInstanceName = 10
	// hashLength is the number of hex digits that distinguish two names that were cut or changed.
	hashLength = 8
)

// ObjectName joins the parts with dashes. A result that is longer than 63 characters, or that no
// object could have, is made to fit and gets a hash of the whole, so that different parts never
// become one name.
func ObjectName(parts ...string) string {
	whole := strings.Join(parts, "-")
	return fit(whole, strings.Join(parts, "\x00"), maxName)
}

// InstanceName is the name of a machine's server at its cloud, which is also its hostname:
// lower-case letters, digits and dashes, at most limit characters. A name that is too long or has
// other characters is made to fit and gets a hash.
func InstanceName(machineName string, limit int) (string, error) {
	if limit < MinInstanceName || limit > maxName {
		return "", fmt.Errorf("the length limit of the server's name is %d: it must be between %d and %d", limit, MinInstanceName, maxName)
	}
	if machineName == "" {
		return "", fmt.Errorf("the machine has no name")
	}
	return fit(machineName, machineName, limit), nil
}

// CheckInstanceName returns an error with the remedy if a driver's cloud does not accept a name.
func CheckInstanceName(driver, name string) error {
	rule := clouds.Of(driver).Names
	if rule.Longest > 0 && len(name) > rule.Longest {
		return fmt.Errorf("the server's name %q is longer than the %d characters that %s takes: lower the limit that the machine's annotation %s sets", name, rule.Longest, driver, rkev1.HostnameLengthLimitAnnotation)
	}
	if rule.LetterFirst && (name == "" || name[0] < 'a' || name[0] > 'z') {
		return fmt.Errorf("the server's name %q must begin with a letter for %s: rename the machine or its pool", name, driver)
	}
	return nil
}

// ParseInstanceNameLimit reads the annotation that limits a server's name; without it, the driver's
// own limit counts.
func ParseInstanceNameLimit(driver, value string) (int, error) {
	if value == "" {
		return cmp.Or(clouds.Of(driver).Names.Longest, maxName), nil
	}
	limit, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || limit < MinInstanceName || limit > maxName {
		return 0, fmt.Errorf("the limit %.20q of the server's name must be a number between %d and %d", value, MinInstanceName, maxName)
	}
	return limit, nil
}

// fit makes a DNS label of at most limit characters from name. If the name had to be changed, it
// appends a hash of identity, so that different names stay different.
func fit(name, identity string, limit int) string {
	// Dashes replace the characters that a DNS label does not allow. The label neither starts nor
	// ends with one.
	clean := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + ('a' - 'A')
		case strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789", r):
			return r
		}
		return '-'
	}, name), "-")
	if clean == name && len(clean) <= limit && clean != "" {
		return clean
	}
	sum := sha256.Sum256([]byte(identity))
	hash := hex.EncodeToString(sum[:])[:hashLength]
	room := max(limit-hashLength-1, 0)
	clean = strings.TrimRight(clean[:min(len(clean), room)], "-")
	if clean == "" {
		return "x" + hash
	}
	return clean + "-" + hash
}

// labelValue makes a name fit into a label's value, where dots and capitals are allowed.
func labelValue(name string) string {
	if len(name) <= maxName {
		return name
	}
	return ObjectName(name)
}
