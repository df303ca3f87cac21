package planner

import (
	"bytes"
	"fmt"
)

// measure counts the elements of a JSON text: keys, texts, numbers, literals, lists and maps. It
// decodes nothing and allocates nothing, and stops at the first bound that the text exceeds: decoded,
// an element takes up to a hundred times its bytes. It does not check the syntax.
func measure(raw []byte, maxElements, maxLevels int) (elements int, err error) {
	levels := 0
	for at := 0; at < len(raw); {
		next := at + 1
		switch raw[at] {
		case ' ', '\t', '\r', '\n', ',', ':':
			at = next
			continue
		case ']', '}':
			levels--
			at = next
			continue
		case '[', '{':
			levels++
		case '"':
			next = at + textLength(raw[at:])
		default:
			next = at + literalLength(raw[at:])
		}
		elements++
		if elements > maxElements {
			return elements, fmt.Errorf("has more than %d elements", maxElements)
		}
		if levels > maxLevels {
			return elements, fmt.Errorf("is more than %d levels deep", maxLevels)
		}
		at = next
	}
	return elements, nil
}

// textLength is the length of the JSON string at the start, with its quotes.
func textLength(raw []byte) int {
	for at := 1; at < len(raw); at++ {
		switch raw[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return len(raw)
}

// literalLength is the length of the number or literal at the start, at least 1.
func literalLength(raw []byte) int {
	if end := bytes.IndexAny(raw, " \t\r\n,:[]{}\""); end > 0 {
		return end
	}
	return len(raw)
}
