package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// reserved are the names at / that are not a binary's.
var reserved = []string{"etc", "home", "tmp", "usr"}

// check rejects options whose image would not run.
func (o options) check(links []file) error {
	if _, known := machines[o.arch]; !known {
		return fmt.Errorf("architecture %q is not supported: amd64 or arm64", o.arch)
	}
	var names []string
	for _, path := range o.binaries {
		name := filepath.Base(path)
		if slices.Contains(names, name) || slices.Contains(reserved, name) {
			return fmt.Errorf("%s: the image has another /%s", path, name)
		}
		names = append(names, name)
	}
	programs := slices.Clone(names)
	for _, link := range links {
		if !slices.Contains(programs, link.target) {
			return fmt.Errorf("link %s=%[2]s: no binary %[2]s is packed", link.name, link.target)
		}
		if slices.Contains(names, link.name) || slices.Contains(reserved, link.name) || filepath.Base(link.name) != link.name {
			return fmt.Errorf("link %s=%s: the image has another /%[1]s, or it is not a plain name", link.name, link.target)
		}
		names = append(names, link.name)
	}
	if filepath.Dir(o.entrypoint) != "/" || !slices.Contains(names, filepath.Base(o.entrypoint)) {
		return fmt.Errorf("entry point %s is neither a binary nor a link of the image", o.entrypoint)
	}
	return nil
}

// machines are the architectures that an image can be for.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// readStatic reads a program for an architecture that has no dependencies: the image has no libc.
func readStatic(path, arch string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading binary: %w", err)
	}
	program, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("%s is no Linux program: %w", path, err)
	}
	if program.Machine != machines[arch] {
		return nil, fmt.Errorf("%s is built for %s, not for %s", path, program.Machine, arch)
	}
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("%s needs shared libraries, which the image does not have: build it with CGO_ENABLED=0", path)
		}
	}
	return content, nil
}
