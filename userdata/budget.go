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
	// marks are the places in the text at which a node can begin: it is counted before anything is parsed, for a parsed node
	// takes a hundred times the memory of the comma that makes it.
	marks int
	// nodes and bytes of texts once aliases are written out; counted while they are.
	nodes, bytes int
}

var (
	ofInput = budget{marks: 250_000, nodes: 20_000, bytes: MaxBytes}
	// ofMerged has two inputs, and what is added to them.
	ofMerged = budget{marks: 3 * ofInput.marks, nodes: 2*ofInput.nodes + 100, bytes: 2*ofInput.bytes + MaxBytes}
)

const maxDepth = 100

var errTooMuch = errors.New("its YAML is too large or too deep")

// countMarks counts what can begin a YAML node: at most three nodes begin at each. In texts it counts too much, for which the
// budget has room.
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
	// parserProblem are the problems whose line the library counts from 0, and others from 1 (go.yaml.in/yaml/v3 decode.go, fail).
	parserProblem = regexp.MustCompile(`^did not find expected (node content|key|<|'-'|',' or )|^found (duplicate %|undefined tag|incompatible)`)
)

// noYAML says what is wrong and in which line, and repeats nothing of the text: of the parser's problems only those about
// anchors do.
func noYAML(err error) error {
	found := yamlProblem.FindStringSubmatch(err.Error())
	switch {
	case strings.Contains(err.Error(), "anchor"):
		return errors.New("it is no valid YAML: an alias names an anchor that is not there, or its own")
	case found == nil:
		return errors.New("it is no valid YAML")
	}
	line, _ := strconv.Atoi(found[1]) // digits, as the expression says
	if parserProblem.MatchString(found[2]) {
		line++
	}
	return fmt.Errorf("line %d: it is no valid YAML: %s", line, found[2])
}
