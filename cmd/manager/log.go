package main

import (
	"flag"
	"fmt"
	"io"
	"strings"

	"k8s.io/klog/v2"
)

// maxEntry bounds one entry of the log, in bytes. Others' words are in some: client-go logs an object that it cannot keep, and an error as a server wrote it.
const maxEntry = 16 << 10

// boundLog has klog, whose flags these are, write its entries to out, each within its bound.
func boundLog(flags *flag.FlagSet, out io.Writer) error {
	// By itself klog writes an entry to each lower severity's file as well, and errors to standard error.
	for name, value := range map[string]string{"logtostderr": "false", "one_output": "true", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			return fmt.Errorf("setting the log up: %w", err)
		}
	}
	klog.SetOutput(boundedEntries{out})
	return nil
}

// boundedEntries writes what it is given at once as one entry.
type boundedEntries struct{ out io.Writer }

// Write implements io.Writer.
func (b boundedEntries) Write(entry []byte) (int, error) {
	if len(entry) <= maxEntry {
		return b.out.Write(entry)
	}
	_, err := fmt.Fprintf(b.out, "%s… and %d bytes more\n", strings.ToValidUTF8(string(entry[:maxEntry]), ""), len(entry)-maxEntry)
	return len(entry), err
}
