package fault

import (
	"net/http"
	"time"
)

// Effect is what happens to a matched request. Latency combines with all
// others; of Status, Drop and Boot one is given, or none for latency only.
type Effect struct {
	// Latency delays the request.
	Latency time.Duration `json:"latency,omitempty"`
	// Status answers with this HTTP status and an API error body.
	Status  int    `json:"status,omitempty"`
	ErrorID string `json:"errorID,omitempty"` // default: the API's own for the status
	Message string `json:"message,omitempty"` // default: the API's own for the status
	// RetryAfter is told in the Retry-After and ratelimit-reset headers.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
	// Drop closes the connection without any answer.
	Drop bool `json:"drop,omitempty"`
	// After lets the request act before Status or Drop is applied.
	After bool `json:"after,omitempty"`
	// Boot makes the boot of the droplets created by the request go wrong.
	Boot *Boot `json:"boot,omitempty"`
}

// Boot says how a boot goes wrong.
type Boot struct {
	Delay       time.Duration `json:"delay,omitempty"`       // boots late
	Never       bool          `json:"never,omitempty"`       // stays new for ever
	Offline     bool          `json:"offline,omitempty"`     // active, but cannot be reached
	NoAddress   bool          `json:"noAddress,omitempty"`   // active, but no address is told
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

// Slow delays a request.
func Slow(latency time.Duration) Effect { return Effect{Latency: latency} }

// Unauthorized refuses the token.
func Unauthorized() Effect { return Effect{Status: http.StatusUnauthorized} }

// Refused answers 422 with the message.
func Refused(message string) Effect {
	return Effect{Status: http.StatusUnprocessableEntity, Message: message}
}

// Quota answers as if the account's droplet limit was reached.
func Quota() Effect {
	return Refused("creating this/these droplet(s) will exceed your droplet limit")
}

// RateLimited answers 429 and says when to come back.
func RateLimited(retryAfter time.Duration) Effect {
	return Effect{Status: http.StatusTooManyRequests, RetryAfter: retryAfter}
}

// ServerError answers with the 5xx status before anything was done.
func ServerError(status int) Effect { return Effect{Status: status} }

// ServerErrorAfter does what was asked and answers with the 5xx status all the same.
func ServerErrorAfter(status int) Effect { return Effect{Status: status, After: true} }

// AnswerLost does what was asked and closes the connection without an answer.
func AnswerLost() Effect { return Effect{Drop: true, After: true} }

// ConnectionLost closes the connection before anything was done.
func ConnectionLost() Effect { return Effect{Drop: true} }

// SlowBoot lets a droplet stay new for longer.
func SlowBoot(delay time.Duration) Effect { return Effect{Boot: &Boot{Delay: delay}} }

// NeverBoots lets a droplet stay new for ever.
func NeverBoots() Effect { return Effect{Boot: &Boot{Never: true}} }

// Offline lets a droplet become active that cannot be reached.
func Offline() Effect { return Effect{Boot: &Boot{Offline: true}} }

// Vanishes removes a droplet behind the client's back once it is active.
func Vanishes(after time.Duration) Effect { return Effect{Boot: &Boot{VanishAfter: after}} }
