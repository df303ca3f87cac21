package joblog

import "io"

// Harmless is a writer for a terminal: what a driver prints is shown, and not obeyed. Control characters are written as a
// person would name them, ESC as ^[; line breaks and tabs stay. A log that goes into a file should stay as it is.
func Harmless(out io.Writer) io.Writer {
	return &harmless{out: out}
}

type harmless struct {
	out io.Writer
	// lead is whether the last byte was the first of a character that may be a control.
	lead bool
}

// c1Lead is the first of the two bytes of U+0080 to U+00BF in UTF-8; those up to U+009F are controls.
const c1Lead = 0xc2

// Write implements io.Writer.
func (h *harmless) Write(p []byte) (int, error) {
	shown := make([]byte, 0, len(p)+8)
	for _, b := range p {
		if h.lead && b == c1Lead {
			shown = append(shown, '?')
			continue
		}
		if h.lead {
			shown = appendC1(shown, b)
			h.lead = false
			continue
		}
		switch {
		case b == c1Lead:
			h.lead = true
		case b == '\n', b == '\t', b == '\r', b >= ' ' && b != 0x7f:
			shown = append(shown, b)
		default:
			// ^@ is 0, ^[ is ESC, ^? is DEL.
			shown = append(shown, '^', b^0x40)
		}
	}
	if _, err := h.out.Write(shown); err != nil {
		return 0, err
	}
	return len(p), nil
}

// appendC1 appends the character that begins with c1Lead, or names it.
func appendC1(shown []byte, second byte) []byte {
	switch {
	case second >= 0x80 && second < 0xa0:
		// A C1 control is ESC and a letter, in one.
		return append(shown, '^', '[', second-0x40)
	case second >= 0xa0 && second < 0xc0:
		return append(shown, c1Lead, second)
	case second < ' ' && second != '\n' && second != '\t' && second != '\r' || second == 0x7f:
		return append(shown, '?', '^', second^0x40)
	default:
		return append(shown, '?', second)
	}
}
