package join

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"k8s.io/client-go/util/cert"
)

// Token is an agent's token for joining.
type Token struct {
	checksum, user, password string
}

// ParseToken reads a token. It rejects a token without the checksum of the server's authority: the
// agent would trust any server.
func ParseToken(text string) (Token, error) {
	rest, pinned := strings.CutPrefix(text, "K10")
	checksum, login, found := strings.Cut(rest, "::")
	user, password, both := strings.Cut(login, ":")
	if raw, err := hex.DecodeString(checksum); err != nil || len(raw) != sha256.Size {
		pinned = false
	}
	if !pinned || !found || !both || password == "" {
		return Token{}, errors.New("token is not of the form K10<sha256 of the server's authority>::<user>:<password>")
	}
	return Token{checksum: checksum, user: user, password: password}, nil
}

// trusts reports whether an authority is the one that the token names: by the text of its
// certificate or, of a chain, by its root.
func (t Token) trusts(authority []byte) bool {
	sums := [][32]byte{sha256.Sum256(authority)}
	if chain, err := cert.ParseCertsPEM(authority); err == nil && len(chain) > 1 {
		sums = sums[:0]
		for _, c := range chain {
			if string(c.RawSubject) == string(c.RawIssuer) {
				sums = append(sums, sha256.Sum256(c.Raw))
			}
		}
	}
	return slices.ContainsFunc(sums, func(sum [32]byte) bool {
		return subtle.ConstantTimeCompare([]byte(hex.EncodeToString(sum[:])), []byte(strings.ToLower(t.checksum))) == 1
	})
}
