package connect

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"
)

// A ticket states that the endpoint gave the holder of a key access to a plan Secret before. It
// grants no access. It tells every replica, without a request to the API server, whose requests to
// serve while it rejects unknown clients behind the same address. An agent sends it in TicketHeader
// when it renews its access. In every other request it follows the token in the agent's kubeconfig.

// TicketHeader carries a ticket to Path.
const TicketHeader = "Drover-Ticket"

const (
	// TokenLife is how long the token of an agent is good for; the agent renews it at half of that.
	TokenLife = 6 * time.Hour
	// TicketLife is how long a ticket is good for: an agent that was off for longer is heard as one
	// that is not known yet.
	TicketLife = 45 * 24 * time.Hour
	// ticketSeparator is a character that bearer tokens may contain and the API server's own tokens
	// do not.
	ticketSeparator = "~"

	keySumBytes, endBytes, macBytes = 12, 8, 16
)

// Ticket is the content of a ticket.
type Ticket struct {
	// Namespace and SecretName are of the plan Secret.
	Namespace, SecretName string
	// keySum identifies the agent's key.
	keySum [keySumBytes]byte
}

// NewTicket makes a ticket for the holder of a public key.
func NewTicket(namespace, secretName string, publicKey []byte) Ticket {
	t := Ticket{Namespace: namespace, SecretName: secretName}
	sum := sha256.Sum256(publicKey)
	copy(t.keySum[:], sum[:])
	return t
}

// Seal makes the text of a ticket, which is good until a time. All replicas have the same secret.
func (t Ticket) Seal(secret []byte, end time.Time) string {
	raw := binary.BigEndian.AppendUint64(append([]byte{}, t.keySum[:]...), uint64(end.Unix()))
	return base64.RawURLEncoding.EncodeToString(append(raw, t.mac(secret, raw)...))
}

// OpenTicket verifies the text of a ticket for a plan Secret.
func OpenTicket(secret []byte, namespace, secretName, text string, now time.Time) (Ticket, bool) {
	const size = keySumBytes + endBytes + macBytes
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != size || len(text) != base64.RawURLEncoding.EncodedLen(size) { // the decoder skips line ends
		return Ticket{}, false
	}
	said, mac := raw[:keySumBytes+endBytes], raw[keySumBytes+endBytes:]
	t := Ticket{Namespace: namespace, SecretName: secretName, keySum: [keySumBytes]byte(said)}
	if !hmac.Equal(mac, t.mac(secret, said)) || now.Unix() >= int64(binary.BigEndian.Uint64(said[keySumBytes:])) {
		return Ticket{}, false
	}
	return t, true
}

func (t Ticket) mac(secret, said []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("drover agent ticket v1\n" + t.Namespace + "/" + t.SecretName + "\n")) // names have no such characters
	mac.Write(said)
	return mac.Sum(nil)[:macBytes]
}

// WithTicket is a bearer token with a ticket behind it.
func WithTicket(token, ticket string) string { return token + ticketSeparator + ticket }

// CutTicket is the inverse of WithTicket. It returns a token without a ticket unchanged.
func CutTicket(bearer string) (token, ticket string) {
	token, ticket, _ = strings.Cut(bearer, ticketSeparator)
	return token, ticket
}
