package driver

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"

	"github.com/drover-project/drover/crdgen"
)

//go:generate go run ../hack/genflags -o builtin.json -version zz_generated.version.go

//go:embed builtin.json
var builtinJSON []byte

// catalogue are the flags by driver, as they are in builtin.json, which a test reads too.
func catalogue() map[string]json.RawMessage {
	var all struct {
		Drivers map[string]json.RawMessage `json:"drivers"`
	}
	_ = json.Unmarshal(builtinJSON, &all)
	return all.Drivers
}

// Builtin returns the flags of a driver that is linked into Drover's machine binary, and whether
// there is such a driver.
func Builtin(name string) ([]crdgen.Flag, bool) {
	flags, err := crdgen.DecodeFlags(catalogue()[name])
	return flags, err == nil
}

// BuiltinNames lists the built-in drivers in alphabetical order.
func BuiltinNames() []string { return slices.Sorted(maps.Keys(catalogue())) }
