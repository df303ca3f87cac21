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
	ID string `json:"id,omitempty"`
	// Match is "METHOD PATH"; METHOD may be *, and in PATH * stands for one
	// segment or a part of one and a last segment ** for any rest.
	Match string `json:"match"`
	// Name matches the name of the droplet, key or tag in the request's body, with *.
	Name string `json:"name,omitempty"`
	// Token matches the name of the token used.
	Token string `json:"token,omitempty"`
	// Skip lets so many matching requests pass first.
	Skip int `json:"skip,omitempty"`
	// Count is how often the effect is applied; 0 means always.
	Count  int    `json:"count,omitempty"`
	Effect Effect `json:"effect"`
}

// Request is what a rule looks at.
type Request struct {
	Method, Path, Name, Token, RequestID string
}

// Hit records one effect applied to one request.
type Hit struct {
	Time      time.Time `json:"time"`
	Rule      string    `json:"rule"`
	Method    string    `json:"method"`
	Path      string    `json:"path"`
	Name      string    `json:"name,omitempty"`
	Token     string    `json:"token,omitempty"`
	RequestID string    `json:"requestID"`
	Effect    Effect    `json:"effect"`
}

// Validate reports what is wrong with the rule.
func (r Rule) Validate() error {
	method, pattern, ok := strings.Cut(r.Match, " ")
	if !ok || method == "" || !strings.HasPrefix(pattern, "/") {
		return fmt.Errorf("checking fault: match %q is not of the form \"METHOD /path\"", r.Match)
	}
	if method != "*" && method != strings.ToUpper(method) {
		return fmt.Errorf("checking fault: method %q is not in upper case", method)
	}
	if strings.Contains(strings.TrimSuffix(pattern, "/**"), "**") {
		return fmt.Errorf("checking fault: in %q, ** is not the last segment", pattern)
	}
	for _, glob := range []string{pattern, r.Name} {
		if _, err := path.Match(glob, ""); err != nil {
			return fmt.Errorf("checking fault: pattern %q: %w", glob, err)
		}
	}
	if r.Skip < 0 || r.Count < 0 {
		return errors.New("checking fault: skip and count cannot be negative")
	}
	return r.Effect.validate()
}

func (e Effect) validate() error {
	if e.Status != 0 && (e.Status < http.StatusBadRequest || http.StatusText(e.Status) == "") {
		return fmt.Errorf("checking fault: %d is no HTTP status of an error", e.Status)
	}
	kinds := 0
	for _, given := range []bool{e.Status != 0, e.Drop, e.Boot != nil} {
		if given {
			kinds++
		}
	}
	if kinds > 1 {
		return errors.New("checking fault: status, drop and boot exclude each other")
	}
	if kinds == 0 && e.Latency == 0 {
		return errors.New("checking fault: it has no effect")
	}
	if err := e.validateDetails(); err != nil {
		return err
	}
	if e.Boot == nil {
		return nil
	}
	if *e.Boot == (Boot{}) {
		return errors.New("checking fault: boot says nothing that goes wrong")
	}
	if e.Boot.Delay < 0 || e.Boot.VanishAfter < 0 {
		return errors.New("checking fault: times cannot be negative")
	}
	return nil
}

// validateDetails finds details of an effect that is not there.
func (e Effect) validateDetails() error {
	if e.After && e.Status == 0 && !e.Drop {
		return errors.New("checking fault: after needs a status or drop")
	}
	if e.Status == 0 && (e.ErrorID != "" || e.Message != "" || e.RetryAfter != 0) {
		return errors.New("checking fault: errorID, message and retryAfter need a status")
	}
	if e.Latency < 0 || e.RetryAfter < 0 {
		return errors.New("checking fault: times cannot be negative")
	}
	return nil
}

func (r Rule) matches(request Request) bool {
	method, pattern, _ := strings.Cut(r.Match, " ")
	if method != "*" && method != request.Method {
		return false
	}
	if r.Token != "" && r.Token != request.Token {
		return false
	}
	if r.Name != "" && !globMatch(r.Name, request.Name) {
		return false
	}
	prefix, open := strings.CutSuffix(pattern, "/**")
	if !open {
		return globMatch(pattern, request.Path)
	}
	depth := strings.Count(prefix, "/")
	segments := strings.Split(request.Path, "/")
	return len(segments) > depth && globMatch(prefix, strings.Join(segments[:depth+1], "/"))
}

func globMatch(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

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

// Effects that need no details.
var (
	Unauthorized = Effect{Status: http.StatusUnauthorized}
	// Quota answers as if the account's droplet limit was reached.
	Quota = Refused("creating this/these droplet(s) will exceed your droplet limit")
	// AnswerLost does what was asked and closes the connection without an answer; ConnectionLost closes it before anything was done.
	AnswerLost     = Effect{Drop: true, After: true}
	ConnectionLost = Effect{Drop: true}
	// NeverBoots lets a droplet stay new for ever; Offline lets one become active that cannot be reached.
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
