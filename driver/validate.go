package driver

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/userdata"
)

const maxDisplayName = 57

// Validate returns all errors of a NodeDriver before any work is done for it, and the warnings.
func Validate(nd *v3.NodeDriver) (warnings []string, err error) {
	var problems []error
	name := nd.DriverName()
	if len(name) > maxDisplayName {
		problems = append(problems, fmt.Errorf("spec.displayName has %d characters, at most %d are accepted", len(name), maxDisplayName))
	} else if err := crdgen.CheckDriverName(name); err != nil {
		problems = append(problems, fmt.Errorf("spec.displayName: %w", err))
	}
	if _, err := crdgen.RulesFromAnnotations(nd.Annotations); err != nil {
		problems = append(problems, err)
	}
	if way := nd.Annotations[v3.UserDataAnnotation]; way != "" {
		if _, err := userdata.ParseWay(way); err != nil {
			problems = append(problems, fmt.Errorf("annotation %s: %w", v3.UserDataAnnotation, err))
		}
	}
	if IsBuiltin(nd) {
		if _, ok := Builtin(name); !ok {
			problems = append(problems, fmt.Errorf("spec.url is %s, but no driver named %q is built in; built in are %s", nd.Spec.URL, name, strings.Join(BuiltinNames(), ", ")))
		}
	} else {
		warning, err := checkExternal(nd)
		problems = append(problems, err)
		warnings = append(warnings, warning...)
	}
	return warnings, errors.Join(problems...)
}

// IsBuiltin reports whether the driver is linked into Drover's machine binary, by its URL.
func IsBuiltin(nd *v3.NodeDriver) bool {
	return strings.HasPrefix(nd.Spec.URL, v3.BuiltinURLPrefix)
}

func checkExternal(nd *v3.NodeDriver) (warnings []string, err error) {
	parsed, err := checkURL(nd.Spec.URL)
	if err != nil {
		return nil, fmt.Errorf("spec.url: %w", err)
	}
	if _, given := parsed.User.Password(); given {
		warnings = append(warnings, "spec.url contains a password, which every user with read access to NodeDrivers can see: serve the driver from an address without a password")
	}
	switch kind, err := ChecksumKind(nd.Spec.Checksum); {
	case err != nil:
		return warnings, fmt.Errorf("spec.checksum: %w", err)
	case slices.Contains([]string{"md5", "sha1"}, kind):
		return append(warnings, fmt.Sprintf("spec.checksum is %s, which can be forged: use sha256 or sha512", kind)), nil
	case kind != "":
		return warnings, nil
	case nd.Spec.InsecureSkipChecksum:
		return append(warnings, "spec.insecureSkipChecksum is set: an attacker who controls spec.url, or the network path to it, can run any program with your cloud credentials"), nil
	case nd.Spec.Active:
		return warnings, errors.New("spec.checksum is empty: give the sha256 or sha512 of what spec.url serves, or set spec.insecureSkipChecksum to accept anything")
	}
	return append(warnings, "spec.checksum is empty: give the sha256 or sha512 of what spec.url serves before spec.active becomes true"), nil
}

func checkURL(text string) (*url.URL, error) {
	parsed, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("is not a URL")
	}
	if parsed.Scheme != "https" && parsed.Scheme != "http" {
		return nil, fmt.Errorf("the scheme %q is not one of local://, https://, http://", parsed.Scheme)
	}
	if parsed.Hostname() == "" {
		return nil, errors.New("has no host")
	}
	return parsed, nil
}

// ChecksumKind returns the kind of a checksum in hex by its length: md5, sha1, sha256 or sha512;
// the kind of "" is "".
func ChecksumKind(checksum string) (string, error) {
	if _, err := hex.DecodeString(checksum); err != nil {
		return "", errors.New("is not hexadecimal")
	}
	kind, known := map[int]string{0: "", 32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"}[len(checksum)]
	if !known {
		return "", fmt.Errorf("has %d digits; md5 has 32, sha1 40, sha256 64, sha512 128", len(checksum))
	}
	return kind, nil
}
