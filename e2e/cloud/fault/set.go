package fault

import (
	"fmt"
	"path"
	"slices"
	"sync"
	"time"
)

// Set is the ordered list of active rules, initially empty. It is safe for concurrent use.
type Set struct {
	mu     sync.Mutex
	rules  []*Status
	hits   []Hit
	nextID int
}

// Status is a rule with how often it matched and was applied.
type Status struct {
	Rule
	Seen, Applied int
}

// Add appends a rule and returns its id. Earlier rules win over later ones.
func (s *Set) Add(rule Rule) (string, error) {
	if err := rule.validate(); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if rule.ID == "" {
		s.nextID++
		rule.ID = fmt.Sprintf("fault-%d", s.nextID)
	}
	if slices.ContainsFunc(s.rules, func(known *Status) bool { return known.ID == rule.ID }) {
		return "", fmt.Errorf("adding fault: id %q is taken", rule.ID)
	}
	s.rules = append(s.rules, &Status{Rule: rule})
	return rule.ID, nil
}

// Remove takes a rule away and reports whether it was there.
func (s *Set) Remove(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.rules)
	s.rules = slices.DeleteFunc(s.rules, func(known *Status) bool { return known.ID == id })
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
	for _, known := range s.rules {
		list = append(list, *known)
	}
	return list
}

// Hits returns every effect applied so far, oldest first.
func (s *Set) Hits() []Hit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.hits)
}

// Apply returns the hits for a request: any number of pure latencies and at
// most one other effect, the first in the order of the rules.
func (s *Set) Apply(request Request) []Hit {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Hit
	for _, rule := range s.rules {
		named, _ := path.Match(rule.Name, request.Name) // validate rejected malformed patterns before
		asked, _ := path.Match(rule.Match, request.Method+" "+request.Path)
		if rule.Token != "" && rule.Token != request.Token || rule.Name != "" && !named || rule.Match != AnyRequest && !asked {
			continue
		}
		rule.Seen++
		if rule.Seen <= rule.Skip || rule.Count > 0 && rule.Applied >= rule.Count {
			continue
		}
		rule.Applied++
		found = append(found, Hit{Time: time.Now().UTC(), Rule: rule.ID, Request: request, Effect: rule.Effect})
		if rule.Effect.decides() || rule.Effect.Boot != nil {
			break
		}
	}
	s.hits = append(s.hits, found...)
	return found
}
