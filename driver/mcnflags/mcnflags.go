// Package mcnflags converts the flags of rancher/machine's drivers to crdgen's. It is separate from
// driver, so that programs that only read or fetch drivers do not link libmachine. Of libmachine it
// imports only the flag types.
package mcnflags

import (
	"fmt"
	"reflect"

	"github.com/rancher/machine/libmachine/mcnflag"

	"github.com/drover-project/drover/crdgen"
)

// Convert returns flags in crdgen's form, checked against its limits. Flags arrive as values from a
// linked driver and as pointers from a plugin, so it accepts both.
func Convert(flags []mcnflag.Flag) ([]crdgen.Flag, error) {
	out := make([]crdgen.Flag, 0, len(flags))
	for i, flag := range flags {
		if pointer := reflect.ValueOf(flag); pointer.Kind() == reflect.Pointer && !pointer.IsNil() {
			if value, ok := reflect.TypeAssert[mcnflag.Flag](pointer.Elem()); ok {
				flag = value
			}
		}
		switch f := flag.(type) {
		case mcnflag.StringFlag:
			out = append(out, crdgen.Flag{Name: f.Name, Usage: f.Usage, EnvVar: f.EnvVar, Type: crdgen.String, Default: f.Value})
		case mcnflag.IntFlag:
			out = append(out, crdgen.Flag{Name: f.Name, Usage: f.Usage, EnvVar: f.EnvVar, Type: crdgen.Int, Default: f.Value})
		case mcnflag.BoolFlag:
			out = append(out, crdgen.Flag{Name: f.Name, Usage: f.Usage, EnvVar: f.EnvVar, Type: crdgen.Bool})
		case mcnflag.StringSliceFlag:
			out = append(out, crdgen.Flag{Name: f.Name, Usage: f.Usage, EnvVar: f.EnvVar, Type: crdgen.StringSlice, Default: f.Value})
		default:
			return nil, fmt.Errorf("converting flag %d: a flag of type %T is not understood: drivers may use StringFlag, IntFlag, BoolFlag and StringSliceFlag", i, flag)
		}
	}
	if err := crdgen.CheckFlags(out); err != nil {
		return nil, fmt.Errorf("checking the driver's flags: %w", err)
	}
	return out, nil
}
