// Package pattern bounds the regular expressions that users write, before any code compiles them.
// A text of 3 KB such as (?:a…){1000} compiles to a program of 440 MB.
//
// It reads: the pattern. It writes nothing. The manager and the agent use the same bounds, so that
// the agent accepts each pattern that the manager delivers.
package pattern

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
)

const (
	// MaxBytes bounds the text of a pattern, because parsing a long one is expensive too. The CRDs
	// have the same bound.
	MaxBytes = 256
	// MaxInstructions bounds the compiled program of a pattern. `^.{1,253}$` has about 500
	// instructions, and an instruction costs about 150 bytes while it is compiled.
	MaxInstructions = 2000
)

// caseInsensitive finds the flag i. With it, the parser looks up each character of a range on its
// own: `[B-𞥃]` costs 5 ms, and 256 bytes of such ranges cost 300 ms.
var caseInsensitive = regexp.MustCompile(`\(\?[a-zA-Z-]*i`)

// Check parses a pattern and returns the estimated size of its program, in instructions. It returns
// an error if the pattern is not a valid regular expression or exceeds a bound.
func Check(text string) (instructions int, err error) {
	if len(text) > MaxBytes {
		return 0, fmt.Errorf("has more than %d bytes", MaxBytes)
	}
	if caseInsensitive.MatchString(text) {
		return 0, errors.New("has the flag i, which is not supported: write both cases, such as [Aa]")
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, errors.New("is not a valid regular expression")
	}
	if instructions = estimate(parsed); instructions > MaxInstructions {
		return 0, fmt.Errorf("compiles to more than %d instructions: repeat less", MaxInstructions)
	}
	return instructions, nil
}

// ends are the instructions that every program has: the failure at its start and the match at its
// end.
const ends = 2

// estimate returns at least as many instructions as the program of a regular expression has. If that
// are more than MaxInstructions, it returns any larger number.
func estimate(re *syntax.Regexp) int {
	return ends + count(re)
}

// count is estimate without the two instructions that a program has once.
func count(re *syntax.Regexp) int {
	size := own(re)
	for _, sub := range re.Sub {
		size += count(sub)
		if size > MaxInstructions {
			break
		}
	}
	if re.Op == syntax.OpRepeat {
		size = repeated(re, size)
	}
	return min(size, MaxInstructions+1)
}

// repeated returns the instructions of a repetition of an expression. The parser allows at most 1000
// copies, also where repetitions are nested.
func repeated(re *syntax.Regexp, size int) int {
	switch {
	case re.Max < 0 && re.Min == 0: // x{0,} compiles to x*
		return size + 2
	case re.Max < 0: // x{3,} compiles to xxx+
		return re.Min*size + 1
	default: // x{2,5} compiles to xx(x(x(x)?)?)?
		return max(re.Max*size+re.Max-re.Min, 1)
	}
}

// own returns the instructions of an expression without its subexpressions.
func own(re *syntax.Regexp) int {
	switch re.Op {
	case syntax.OpLiteral:
		return max(len(re.Rune), 1)
	case syntax.OpRepeat:
		return 0
	case syntax.OpCapture, syntax.OpStar:
		// A star of an expression that matches the empty text compiles to two branches: (x+)?.
		return 2
	case syntax.OpConcat, syntax.OpAlternate:
		return max(len(re.Sub), 1)
	default:
		return 1
	}
}
