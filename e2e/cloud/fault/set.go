package fault

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Set is the ordered list of rules in force; at first there are none. It is safe for concurrent use.
type Set struct {
	mu     sync.Mutex
	rules  []*armed
	hits   []Hit
	nextID int
}

type armed struct {
	rule    Rule
	seen    int
	applied int
}

// Status is a rule with how often it matched and was applied.
type Status struct {
	Rule
	Seen    int `json:"seen"`
	Applied int `json:"applied"`
}

// Add appends a rule and returns its id. Earlier rules win over later ones.
func (s *Set) Add(rule Rule) (string, error) {
	if err := rule.Validate(); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if rule.ID == "" {
		s.nextID++
		rule.ID = fmt.Sprintf("fault-%d", s.nextID)
	}
	if slices.ContainsFunc(s.rules, func(a *armed) bool { return a.rule.ID == rule.ID }) {
		return "", fmt.Errorf("adding fault: id %q is taken", rule.ID)
	}
	s.rules = append(s.rules, &armed{rule: rule})
	return rule.ID, nil
}

// Remove takes a rule away and reports whether it was there.
func (s *Set) Remove(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.rules)
	s.rules = slices.DeleteFunc(s.rules, func(a *armed) bool { return a.rule.ID == id })
	return len(s.rules) < before
}

// Clear takes all rules away. The hits stay.
func (s *Set) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = nil
}

// List returns the rules in order.
func (s *Set) List() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Status, 0, len(s.rules))
	for _, a := range s.rules {
		list = append(list, Status{Rule: a.rule, Seen: a.seen, Applied: a.applied})
	}
	return list
}

// Hits returns every effect applied so far, oldest first.
func (s *Set) Hits() []Hit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Hit{}, s.hits...) // [] in JSON when there are none
}

// Apply returns the hits for a request: any number of pure latencies and at
// most one other effect, the first in the order of the rules.
func (s *Set) Apply(request Request) []Hit {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Hit
	for _, a := range s.rules {
		if !a.rule.matches(request) {
			continue
		}
		a.seen++
		if a.seen <= a.rule.Skip || a.rule.Count > 0 && a.applied >= a.rule.Count {
			continue
		}
		a.applied++
		found = append(found, Hit{
			Time: time.Now().UTC(), Rule: a.rule.ID, Method: request.Method, Path: request.Path, Name: request.Name,
			Token: request.Token, RequestID: request.RequestID, Effect: a.rule.Effect,
		})
		if effect := a.rule.Effect; effect.Status != 0 || effect.Drop || effect.Boot != nil {
			break
		}
	}
	s.hits = append(s.hits, found...)
	return found
}
