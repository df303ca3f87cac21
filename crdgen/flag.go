package crdgen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Limits of a flag list. A driver is foreign code, so that its flags are bounded before they are
// used.
const (
	// MaxFlags is the largest number of flags a driver may have.
	MaxFlags = 1000
	// MaxFlagsBytes is the largest size of an encoded flag list.
	MaxFlagsBytes = 2 << 20

	maxNameLength    = 128
	maxUsageLength   = 2048
	maxEnvVarLength  = 256
	maxDefaultLength = 4096
	maxDefaultItems  = 256
)

// FlagType is the type of a flag's value.
type FlagType string

// The types a driver's flag can have.
const (
	String      FlagType = "string"
	Int         FlagType = "int"
	Bool        FlagType = "bool"
	StringSlice FlagType = "stringSlice"
)

// Flag is one create flag of a driver, as the driver itself declares it. A probe of an external
// driver returns a JSON list of them.
type Flag struct {
	// Name is the flag's name without dashes in front, such as digitalocean-access-token.
	Name string `json:"name"`
	// Usage is the driver's own help text.
	Usage string `json:"usage,omitempty"`
	// EnvVar is the environment variable that the driver reads if the flag is missing; it may be a
	// comma-separated list.
	EnvVar string `json:"envVar,omitempty"`
	// Type is the type of the value.
	Type FlagType `json:"type"`
	// Default is a string, int64, bool or []string, according to Type; nil if the driver has none,
	// or the zero value.
	Default any `json:"default,omitempty"`
}

// DecodeFlags reads a JSON list of flags from an untrusted source: it checks sizes, characters and
// types, and returns defaults as string, int64, bool or []string.
func DecodeFlags(data []byte) ([]Flag, error) {
	if len(data) > MaxFlagsBytes {
		return nil, fmt.Errorf("decoding flags: %d bytes, at most %d are accepted", len(data), MaxFlagsBytes)
	}
	var flags []Flag
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&flags); err != nil {
		return nil, fmt.Errorf("decoding flags: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decoding flags: more data after the list")
	}
	if err := CheckFlags(flags); err != nil {
		return nil, err
	}
	return flags, nil
}

// CheckFlags applies the limits to flags and brings their defaults into the form Flag promises.
func CheckFlags(flags []Flag) error {
	if len(flags) > MaxFlags {
		return fmt.Errorf("the driver has %d flags, at most %d are accepted", len(flags), MaxFlags)
	}
	seen := make(map[string]bool, len(flags))
	for i := range flags {
		if err := checkFlag(&flags[i]); err != nil {
			return fmt.Errorf("flag %d: %w", i, err)
		}
		if seen[flags[i].Name] {
			return fmt.Errorf("flag %d: %q is declared twice", i, flags[i].Name)
		}
		seen[flags[i].Name] = true
	}
	return nil
}

var (
	flagName = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)
	// variableName matches the name of an environment variable, or an empty text.
	variableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)?$`)
)

func checkFlag(flag *Flag) error {
	if err := checkName(flag.Name); err != nil {
		return err
	}
	if len(flag.EnvVar) > maxEnvVarLength {
		return fmt.Errorf("%s: the environment variable's name has %d bytes, at most %d are accepted", flag.Name, len(flag.EnvVar), maxEnvVarLength)
	}
	for variable := range strings.SplitSeq(flag.EnvVar, ",") {
		if variable = strings.TrimSpace(variable); !variableName.MatchString(variable) {
			return fmt.Errorf("%s: the environment variable %q is not a valid name", flag.Name, variable)
		}
	}
	if len(flag.Usage) > maxUsageLength {
		return fmt.Errorf("%s: usage has %d bytes, at most %d are accepted", flag.Name, len(flag.Usage), maxUsageLength)
	}
	value, err := normalDefault(flag.Type, flag.Default)
	if err != nil {
		return fmt.Errorf("%s: %w", flag.Name, err)
	}
	flag.Default = value
	return nil
}

func checkName(name string) error {
	if name == "" {
		return errors.New("the name is empty")
	}
	if len(name) > maxNameLength {
		return fmt.Errorf("the name has %d bytes, at most %d are accepted", len(name), maxNameLength)
	}
	if strings.HasPrefix(name, "-") {
		return fmt.Errorf("the name %q begins with a dash", name)
	}
	if !flagName.MatchString(name) {
		return fmt.Errorf("the name %q has a character outside A-Z a-z 0-9 . _ -", name)
	}
	return nil
}
