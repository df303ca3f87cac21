package userdata

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// budget bounds one YAML document. The text is bounded before (MaxBytes).
type budget struct {
	// marks are the places in the text at which a node can begin. They are counted before parsing,
	// because a parsed node takes a hundred times the memory of the comma that makes it.
	marks int
	// nodes and bytes of texts once aliases are written out; counted while they are.
	nodes, bytes int
}

var (
	ofInput = budget{marks: 250_000, nodes: 20_000, bytes: MaxBytes}
	// ofMerged allows two inputs and Drover's additions.
	ofMerged = budget{marks: 3 * ofInput.marks, nodes: 2*ofInput.nodes + 100, bytes: 2*ofInput.bytes + MaxBytes}
)

const maxDepth = 100

var errTooMuch = errors.New("its YAML is too large or too deep")

// countMarks counts the characters that can begin a YAML node: at most three nodes begin at each.
// It counts too many in texts; the budget allows for that.
func countMarks(data []byte) int {
	count := 0
	for i, b := range data {
		switch b {
		case ',', ':', '[', '{':
			count++
		case '-', '?':
			if i+1 == len(data) || bytes.IndexByte([]byte(blanks), data[i+1]) >= 0 {
				count++
			}
		}
	}
	return count
}

var (
	yamlProblem = regexp.MustCompile(`^yaml: line (\d+): (.*)$`)
	// parserProblem are the problems whose line the library counts from 0; it counts others from 1
	// (go.yaml.in/yaml/v3 decode.go, fail).
	parserProblem = regexp.MustCompile(`^did not find expected (node content|key|<|'-'|',' or )|^found (duplicate %|undefined tag|incompatible)`)
)

// noYAML describes a YAML error with its line and does not quote the text. Of the parser's errors
// only the ones about anchors quote it.
func noYAML(err error) error {
	found := yamlProblem.FindStringSubmatch(err.Error())
	switch {
	case strings.Contains(err.Error(), "anchor"):
		return errors.New("it is not valid YAML: an alias names an anchor that is not there, or its own")
	case found == nil:
		return errors.New("it is not valid YAML")
	}
	line, _ := strconv.Atoi(found[1]) // digits, because of the expression
	if parserProblem.MatchString(found[2]) {
		line++
	}
	return fmt.Errorf("line %d: it is not valid YAML: %s", line, found[2])
}
