package controllers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// loops are the packages with a loop: all but the kit and what runs Jobs for them.
func loops(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && entry.Name() != "step" && entry.Name() != "attempt" {
			names = append(names, entry.Name())
		}
	}
	return names
}

// The table in doc.go says who writes what: a loop that is not in it writes in secret, and one that is in it twice for one
// object is one writer too many.
func TestDoc_namesEveryLoopAndOneWriterPerLine(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	known := append(loops(t), "user", "CAPI", "CLI", "probe's pod", "Job's pod", "scan's pod", "others")
	writers, objects := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		columns := strings.TrimPrefix(strings.TrimRight(line, "\n"), "//\t")
		if columns == strings.TrimRight(line, "\n") || len(columns) < 70 || strings.HasPrefix(columns, "object") || strings.HasPrefix(columns, "-") {
			continue
		}
		object, writer := strings.TrimSpace(columns[:50]), strings.TrimSpace(columns[50:70])
		require.Subset(t, known, strings.Split(writer, ", "), line)
		require.False(t, objects[object], "two writers of %s", object)
		writers[writer], objects[object] = true, true
	}
	for _, loop := range loops(t) {
		require.True(t, writers[loop], "%s is not in the table", loop)
	}
}

// Each loop says in its package's doc what it reads and writes.
func TestDoc_eachLoopSaysWhatItReadsAndWrites(t *testing.T) {
	for _, loop := range loops(t) {
		doc := filepath.Join(loop, "doc.go")
		if _, err := os.Stat(doc); err != nil {
			doc = filepath.Join(loop, "controller.go") // of a package of one file
		}
		text, err := os.ReadFile(doc)
		require.NoError(t, err)
		for _, words := range []string{"// Package " + loop, "It reads: ", "It writes: "} {
			require.Contains(t, string(text), words, loop)
		}
	}
}
