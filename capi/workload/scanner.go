package workload

import "fmt"

// scanner counts JSON as it is read, before anybody decodes it. Bytes alone do not bound what decoding takes: `{},` is three of them and
// becomes a Pod or a Container of a kilobyte. So the members of arrays that are objects or arrays must have minMember bytes on the
// average; those of real answers have more than a hundred. What is no JSON is counted in some way too, and refused by who decodes it.
type scanner struct {
	// limit bounds one document, in bytes.
	limit int
	// stream allows one document after another, as in a watch; each is counted anew.
	stream bool

	bytes, members   int
	depth            int
	arrays           [maxDepth / 64]uint64
	inText, escaping bool
}

const (
	// maxDepth bounds how deep objects and arrays are nested; schemas in CRDs have some fifty levels.
	maxDepth = 256
	// minMember is how many bytes a member of an array must have on the average, freeMembers how many may have fewer.
	minMember   = 64
	freeMembers = 1000
)

func (s *scanner) read(p []byte) error {
	for _, b := range p {
		s.bytes++
		if s.bytes > s.limit {
			return fmt.Errorf("%w: it has more than %d bytes", errAnswer, s.limit)
		}
		if err := s.next(b); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) next(b byte) error {
	if s.inText {
		switch {
		case s.escaping:
			s.escaping = false
		case b == '\\':
			s.escaping = true
		case b == '"':
			s.inText = false
		}
		return nil
	}
	switch b {
	case '"':
		s.inText = true
	case '{', '[':
		return s.open(b == '[')
	case '}', ']':
		s.depth = max(s.depth-1, 0)
		if s.depth == 0 && s.stream {
			s.bytes, s.members = 0, 0
		}
	}
	return nil
}

func (s *scanner) open(array bool) error {
	if s.depth > 0 && s.arrays[(s.depth-1)/64]&(1<<((s.depth-1)%64)) != 0 {
		s.members++
		if s.members > freeMembers && s.members*minMember > s.bytes {
			return fmt.Errorf("%w: it has more objects than sense", errAnswer)
		}
	}
	if s.depth == maxDepth {
		return fmt.Errorf("%w: it is nested too deep", errAnswer)
	}
	bit := uint64(1) << (s.depth % 64)
	s.arrays[s.depth/64] &^= bit
	if array {
		s.arrays[s.depth/64] |= bit
	}
	s.depth++
	return nil
}
