package workload

import "fmt"

// scanner counts JSON while it is read, before it is decoded. Bytes alone do not bound the memory
// after decoding: `{},` has three bytes and becomes a Pod or a Container of a kilobyte. So array
// members that are objects or arrays must have minMember bytes on average; in real responses they
// have more than a hundred. `"a":1,` has six bytes and becomes a map entry of two hundred: so the
// members of objects must have minPair bytes on average, where real ones have more than twenty. Nor
// do bytes bound the time: see number. Invalid JSON is counted in some way, too; the decoder
// rejects it.
type scanner struct {
	// limit bounds one document, in bytes.
	limit int
	// stream allows one document after another, as in a watch. Each is counted separately;
	// documents counts the complete ones.
	stream bool

	bytes            int
	members, pairs   int
	documents        int
	depth            int
	arrays           [maxDepth / 64]uint64
	inText, escaping bool
	number           number
	// key is the beginning of the last text, which may be a name. words is the depth of the object
	// below labels or annotations, whose texts are not read as numbers.
	key   []byte
	words int
}

const (
	// maxDepth bounds the nesting of objects and arrays; schemas in CRDs have some fifty levels.
	maxDepth = 256
	// minMember is the minimum average size of an array's members in bytes; freeMembers is how many
	// may be smaller.
	minMember   = 64
	freeMembers = 1000
	// minPair is the minimum average size of an object's members in bytes, name and quotes
	// included; freePairs is how many may be smaller.
	minPair   = 12
	freePairs = 1000
)

func (s *scanner) read(p []byte) error {
	for _, b := range p {
		s.bytes++
		if s.bytes > s.limit {
			return fmt.Errorf("%w: it exceeds %d bytes", errAnswer, s.limit)
		}
		if err := s.next(b); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) next(b byte) error {
	if s.inText {
		return s.nextOfText(b)
	}
	switch b {
	case '"':
		s.inText, s.number, s.key = true, number{}, s.key[:0]
	case ':':
		s.pairs++
		if s.pairs > freePairs && s.pairs*minPair > s.bytes {
			return fmt.Errorf("%w: too many fields", errAnswer)
		}
	case ',':
		s.key = s.key[:0]
		return s.endNumber()
	case '{', '[':
		return s.open(b == '[')
	case '}', ']':
		s.depth = max(s.depth-1, 0)
		if s.depth < s.words {
			s.words = 0
		}
		if s.depth == 0 && s.stream {
			s.bytes, s.members, s.pairs = 0, 0, 0
			s.documents++
		}
		return s.endNumber()
	default:
		s.number.next(b)
	}
	return nil
}

func (s *scanner) nextOfText(b byte) error {
	if b == '"' && !s.escaping {
		s.inText = false
		return s.endNumber()
	}
	s.escaping = b == '\\' && !s.escaping
	if len(s.key) < maxKey {
		s.key = append(s.key, b)
	}
	s.number.next(b)
	return nil
}

// maxKey is the length of a name's prefix that is compared.
const maxKey = len("annotations") + 1

func (s *scanner) endNumber() error {
	err := s.number.end()
	if s.words > 0 {
		return nil
	}
	return err
}

// number checks a text or a number that a resource.Quantity (k8s.io/apimachinery/pkg/api/resource)
// may parse. Parsing can take any time: it writes 1e-2000000000 out. A Quantity rejects escapes in
// a text, and numbers with further characters, such as a UUID. Labels and annotations are never
// parsed as one.
type number struct {
	part     numberPart
	digits   int // of the number, and of its exponent
	exponent int
	negative bool
}

type numberPart int

const (
	beforeNumber numberPart = iota
	inNumber
	inExponent
	afterNumber
	noNumber
)

const (
	// maxDigits bounds the digits of a number. fitExponent bounds the digits of its exponent,
	// because an exponent that does not fit into 32 bits becomes negative. maxExponent bounds the
	// digits of a negative exponent, and of the exponent of a number with more than fitDigits
	// digits, which fit into 64 bits.
	maxDigits, fitDigits, fitExponent, maxExponent = 100, 18, 9, 2
)

// sign is the role of a byte in a number.
type sign int

const (
	otherSign sign = iota
	digit
	plusOrMinus
	dot
	exponentSign
	space // of all kinds: they are cut off
)

func signOf(b byte) sign {
	switch {
	case b >= '0' && b <= '9':
		return digit
	case b == '+' || b == '-':
		return plusOrMinus
	case b == '.':
		return dot
	case b == 'e' || b == 'E':
		return exponentSign
	case b <= ' ' || b >= 0x80:
		return space
	}
	return otherSign
}

// following maps each part of a number, and the next byte, to the next part. A missing entry means
// that the text is not a number.
var following = map[numberPart]map[sign]numberPart{
	beforeNumber: {space: beforeNumber, digit: inNumber, plusOrMinus: inNumber, dot: inNumber},
	inNumber:     {digit: inNumber, dot: inNumber, exponentSign: inExponent, space: afterNumber},
	inExponent:   {digit: inExponent, plusOrMinus: inExponent, space: afterNumber},
	afterNumber:  {space: afterNumber},
}

func (n *number) next(b byte) {
	if n.part == noNumber {
		return
	}
	is, part := signOf(b), n.part
	var ok bool
	if n.part, ok = following[part][is]; !ok || part == inExponent && is == plusOrMinus && n.exponent > 0 {
		n.part = noNumber
		return
	}
	switch {
	case is == digit && n.part == inNumber:
		n.digits++
	case is == digit:
		n.exponent++
	case b == '-' && part == inExponent:
		n.negative = true
	}
}

// end ends one, and refuses it if need be.
func (n *number) end() error {
	ended, most := *n, fitExponent
	*n = number{}
	if ended.negative || ended.digits > fitDigits {
		most = maxExponent
	}
	if ended.part != noNumber && (ended.digits > maxDigits || ended.exponent > most) {
		return fmt.Errorf("%w: a number is too long", errAnswer)
	}
	return nil
}

func (s *scanner) open(array bool) error {
	if s.depth > 0 && s.arrays[(s.depth-1)/64]&(1<<((s.depth-1)%64)) != 0 {
		s.members++
		if s.members > freeMembers && s.members*minMember > s.bytes {
			return fmt.Errorf("%w: too many objects", errAnswer)
		}
	}
	if s.depth == maxDepth {
		return fmt.Errorf("%w: nested too deeply", errAnswer)
	}
	if key := string(s.key); !array && s.words == 0 && (key == "labels" || key == "annotations") {
		s.words = s.depth + 1
	}
	s.key = s.key[:0]
	bit := uint64(1) << (s.depth % 64)
	s.arrays[s.depth/64] &^= bit
	if array {
		s.arrays[s.depth/64] |= bit
	}
	s.depth++
	return nil
}
