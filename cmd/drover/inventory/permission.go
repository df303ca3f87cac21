package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// permission is a right that a user lacks.
type permission struct {
	user, verb string
	// what is a resource with its group, or a path.
	what string
	// name of the object; empty for all of them.
	name string
	// where is a namespace, the whole cluster, or empty for a path.
	where string
	// more is what the authorizer added.
	more string
}

// The sentences in which an API server refuses: it tells the verb and the scope in no other way.
var (
	refusedResource = regexp.MustCompile(`User ("(?:[^"\\]|\\.)*") cannot (\S+) resource "([^"]*)" in API group "([^"]*)" (?:in the namespace "([^"]*)"|at the cluster scope)(?:: (.*))?$`)
	refusedPath     = regexp.MustCompile(`User ("(?:[^"\\]|\\.)*") cannot (\S+) path "([^"]*)"(?:: (.*))?$`)
)

// permissionOf reads which right an error says is missing; false for other errors, and for refusals by policies and webhooks.
func permissionOf(err error) (permission, bool) {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || !apierrors.IsForbidden(status) {
		return permission{}, false
	}
	message := status.Status().Message
	if m := refusedPath.FindStringSubmatch(message); m != nil {
		return permission{user: unquote(m[1]), verb: m[2], what: m[3], more: m[4]}, true
	}
	m := refusedResource.FindStringSubmatch(message)
	if m == nil {
		return permission{}, false
	}
	p := permission{user: unquote(m[1]), verb: m[2], what: m[3], where: "the whole cluster", more: m[6]}
	if m[4] != "" {
		// As kubectl writes it: pods/log, jobs.batch, deployments.apps/scale.
		resource, sub, found := strings.Cut(m[3], "/")
		if p.what = resource + "." + m[4]; found {
			p.what += "/" + sub
		}
	}
	if m[5] != "" {
		p.where = "namespace " + m[5]
	}
	if details := status.Status().Details; details != nil {
		p.name = details.Name
	}
	return p, true
}

func unquote(text string) string {
	if plain, err := strconv.Unquote(text); err == nil {
		return plain
	}
	return text
}

// sentence tells rights that differ in what they are for and in nothing else.
func sentence(all []permission) string {
	var what []string
	for _, p := range all {
		what = append(what, p.what)
	}
	slices.Sort(what)
	first := all[0]
	text := fmt.Sprintf("forbidden: user %q lacks the right to %s %s", first.user, first.verb, strings.Join(slices.Compact(what), ", "))
	if strings.HasPrefix(first.verb, "impersonate-on:") {
		// What the server asked for last is the rarer of the two rights that would do.
		text = fmt.Sprintf("forbidden: user %q lacks the right to be somebody else (--as): impersonate users, or %s %s", first.user, first.verb, first.what)
	}
	if first.name != "" {
		text += fmt.Sprintf(" %q", first.name)
	}
	if first.where != "" {
		text += " in " + first.where
	}
	if first.more != "" {
		text += " (" + first.more + ")"
	}
	return text
}

// ForbiddenError tells that nothing of several things is allowed.
type ForbiddenError struct {
	// Doing is what was tried, such as "listing machines".
	Doing string
	// Refusals are the API's.
	Refusals []error
}

// Error implements error. Refusals of the same kind are told in one sentence.
func (e *ForbiddenError) Error() string {
	var texts []string
	groups := map[permission][]permission{}
	for _, err := range e.Refusals {
		p, ok := permissionOf(err)
		if !ok {
			texts = append(texts, err.Error())
			continue
		}
		like := p
		like.what = ""
		groups[like] = append(groups[like], p)
	}
	for _, group := range groups {
		texts = append(texts, sentence(group))
	}
	slices.Sort(texts)
	return cmp.Or(e.Doing, "asking the API") + ": " + strings.Join(slices.Compact(texts), "; ")
}

// Unwrap gives the refusals.
func (e *ForbiddenError) Unwrap() []error { return e.Refusals }
