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
	return e.Boot.validate()
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

func (b *Boot) validate() error {
	if b == nil {
		return nil
	}
	if *b == (Boot{}) {
		return errors.New("checking fault: boot says nothing that goes wrong")
	}
	if b.Delay < 0 || b.VanishAfter < 0 {
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
