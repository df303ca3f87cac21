package driver

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/drover-project/drover/crdgen"
)

//go:generate go run ../hack/genflags -o builtin.json -version zz_generated.version.go

//go:embed builtin.json
var builtinJSON []byte

// catalogue is the form of builtin.json.
type catalogue struct {
	MachineVersion string                     `json:"machineVersion"`
	Drivers        map[string]json.RawMessage `json:"drivers"`
}

// Builtin returns the flags of a driver that is linked into Drover's machine binary, and whether there is such a driver.
func Builtin(name string) ([]crdgen.Flag, bool) {
	all, err := readCatalogue()
	if err != nil {
		return nil, false
	}
	raw, ok := all.Drivers[name]
	if !ok {
		return nil, false
	}
	flags, err := crdgen.DecodeFlags(raw)
	return flags, err == nil
}

// BuiltinNames lists the built-in drivers in alphabetical order.
func BuiltinNames() []string {
	all, err := readCatalogue()
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(all.Drivers))
	for name := range all.Drivers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func readCatalogue() (catalogue, error) {
	var all catalogue
	if err := json.Unmarshal(builtinJSON, &all); err != nil {
		return catalogue{}, fmt.Errorf("decoding builtin.json: %w", err)
	}
	return all, nil
}
