package fault

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"
)

// Rule says which requests meet which effect.
type Rule struct {
	// ID names the rule; Add chooses one when it is empty.
	ID string
	// Match is "METHOD PATH", in which * stands for one segment of the path or a part of one; or
	// AnyRequest.
	Match string
	// Name matches the name of the droplet, key or tag in the request's body, with *.
	Name string
	// Token matches the name of the token used.
	Token string
	// Skip lets so many matching requests pass first.
	Skip int
	// Count is how often the effect is applied; 0 means always.
	Count  int
	Effect Effect
}

// Request holds the properties of a request that rules match.
type Request struct {
	Method    string `json:"method"`
	Path      string `json:"path"`
	Name      string `json:"name,omitempty"`
	Token     string `json:"token,omitempty"`
	RequestID string `json:"requestID"`
}

// Hit records one effect applied to one request.
type Hit struct {
	Time time.Time `json:"time"`
	Rule string    `json:"rule"`
	Request
	Effect Effect `json:"effect"`
}

// validate refuses a rule that would never be met, or do nothing, or two things.
func (r Rule) validate() error {
	for _, glob := range []string{r.Match, r.Name} {
		if _, err := path.Match(glob, ""); err != nil {
			return fmt.Errorf("checking fault: pattern %q: %w", glob, err)
		}
	}
	if _, at, _ := strings.Cut(r.Match, " "); !strings.HasPrefix(at, "/") {
		return fmt.Errorf("checking fault: match %q is not of the form \"METHOD /path\"", r.Match)
	}
	if r.Skip < 0 || r.Count < 0 {
		return errors.New("checking fault: a count is negative")
	}
	switch e := r.Effect; {
	case e == (Effect{}):
		return errors.New("checking fault: it has no effect")
	case e.Boot != nil && e.decides(), e.Drop && e.Status != 0:
		return errors.New("checking fault: status, drop and boot exclude each other")
	}
	return nil
}

// Effect is the effect on a matched request. Latency combines with all others; at most one of
// Status, Drop and Boot is set.
type Effect struct {
	// Latency delays the request.
	Latency time.Duration `json:"latency,omitempty"`
	// Status answers with this HTTP status and an API error body.
	Status  int    `json:"status,omitempty"`
	ErrorID string `json:"errorID,omitempty"` // default: the API's own for the status
	Message string `json:"message,omitempty"` // default: the API's own for the status
	// RetryAfter is sent in the Retry-After and ratelimit-reset headers.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
	// Drop closes the connection without any answer.
	Drop bool `json:"drop,omitempty"`
	// After lets the request act before Status or Drop is applied.
	After bool `json:"after,omitempty"`
	// Repeat lets the request act one more time first, as an SDK does that repeats a request whose
	// answer was lost.
	Repeat bool `json:"repeat,omitempty"`
	// Boot makes the boot of the droplets created by the request go wrong.
	Boot *Boot `json:"boot,omitempty"`
}

// decides reports whether the effect takes the place of the answer.
func (e Effect) decides() bool { return e.Status != 0 || e.Drop }

// Boot says how a boot goes wrong.
type Boot struct {
	Delay       time.Duration `json:"delay,omitempty"`       // boots late
	Never       bool          `json:"never,omitempty"`       // stays new for ever
	Offline     bool          `json:"offline,omitempty"`     // active, but cannot be reached
	NoAddress   bool          `json:"noAddress,omitempty"`   // active, but the API reports no address
	VanishAfter time.Duration `json:"vanishAfter,omitempty"` // gone so long after it became active
}

// The patterns of the requests that faults are mostly about.
const (
	CreateDroplet = "POST /v2/droplets"
	GetDroplet    = "GET /v2/droplets/*"
	DeleteDroplet = "DELETE /v2/droplets/*"
	CreateKey     = "POST /v2/account/keys"
	DeleteKey     = "DELETE /v2/account/keys/*"
	AnyRequest    = "* /**"
)

// Effects that need no details.
var (
	Unauthorized = Effect{Status: http.StatusUnauthorized}
	// Quota answers as if the account's droplet limit was reached.
	Quota = Refused("creating this/these droplet(s) will exceed your droplet limit")
	// AnswerLost handles the request and closes the connection without an answer; ConnectionLost
	// closes it before the request is handled.
	AnswerLost     = Effect{Drop: true, After: true}
	ConnectionLost = Effect{Drop: true}
	// Repeated handles the request twice, and answers the second time.
	Repeated = Effect{Repeat: true}
	// NeverBoots lets a droplet stay new for ever; Offline lets one become active that cannot be
	// reached.
	NeverBoots = Effect{Boot: &Boot{Never: true}}
	Offline    = Effect{Boot: &Boot{Offline: true}}
)

// Refused answers 422 with the message.
func Refused(message string) Effect {
	return Effect{Status: http.StatusUnprocessableEntity, Message: message}
}

// RateLimited answers 429 and says when to come back.
func RateLimited(retryAfter time.Duration) Effect {
	return Effect{Status: http.StatusTooManyRequests, RetryAfter: retryAfter}
}
