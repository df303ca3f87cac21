package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestModeOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "driver")
	for content, want := range map[string]string{
		"ELF":                              "",
		"":                                 "",
		"ELF\nhostile-mode:bomb":           "bomb",
		"\nhostile-mode:a\nhostile-mode:b": "b",
	} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		mode, err := modeOf(path)
		require.NoError(t, err)
		require.Equal(t, want, mode, content)
	}
	_, err := modeOf(path + "-missing")
	require.ErrorContains(t, err, "reading the driver")
}

func TestFlagsOfEachMode(t *testing.T) {
	for mode, want := range map[string]int{"": 1, "prints": 1, "path": 2, "many": 10001, "wide": 2} {
		require.Len(t, (&Driver{mode: mode}).GetCreateFlags(), want, mode)
	}
}
