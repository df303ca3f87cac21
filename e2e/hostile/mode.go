package main

import (
	"bytes"
	"fmt"
	"os"
)

// modeMark stands before the name of what to do, at the end of the file.
const modeMark = "\nhostile-mode:"

// modeOf reads what the binary at a path is to do; "" when nothing is said.
func modeOf(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the driver: %w", err)
	}
	tail := content[max(0, len(content)-64):]
	at := bytes.LastIndex(tail, []byte(modeMark))
	if at < 0 {
		return "", nil
	}
	return string(tail[at+len(modeMark):]), nil
}
