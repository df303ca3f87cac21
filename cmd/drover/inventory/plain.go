package inventory

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-project/drover/cmd/drover/facts"
)

// Plain is the text of an error for a user: one line. It keeps which server does not answer and
// why, drops the requests, and keeps the server's own message about a missing right.
func Plain(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	for _, cause := range causes(err) {
		// The cause of an error is at the end of its text, even if it is short and occurs elsewhere
		// too.
		was, plain := cause.Error(), ""
		if request, ok := errors.AsType[*url.Error](cause); ok {
			plain = plainRequest(request)
		} else if apierrors.IsUnauthorized(cause) {
			plain = "the API server does not accept the kubeconfig's credential (401 Unauthorized): it is wrong or has expired"
		}
		if i := strings.LastIndex(text, was); i >= 0 && was != "" && plain != "" {
			text = text[:i] + plain + text[i+len(was):]
		}
	}
	// One line, without control characters.
	var lines []string
	for line := range strings.Lines(text) {
		if line = facts.Clean(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// appendProblem adds a read error, if there was one.
func appendProblem(problems []string, err error) []string {
	if err == nil {
		return problems
	}
	return append(problems, Plain(err))
}

// refusal matches the API server's message about a forbidden request.
var refusal = regexp.MustCompile(`cannot ([a-z]+) resource "([^"]+)" in API group "([^"]*)" (?:in the namespace "([^"]+)"|at the cluster scope)`)

// refusals is several refusals in one sentence, which names each kind once.
type refusals struct {
	error

	all []error
}

// Unwrap gives the refusals.
func (r *refusals) Unwrap() []error { return r.all }

// joinRefusals joins errors that all are refusals. One alone keeps the server's own words, and so
// do those that are not about rights alone.
func joinRefusals(errs []error) error {
	found := causes(errors.Join(errs...))
	verbs, kinds, places := sets.New[string](), map[string]sets.Set[string]{}, sets.New[string]()
	for _, err := range found {
		parts := refusal.FindStringSubmatch(err.Error())
		if parts == nil || len(found) == 1 {
			return errors.Join(errs...)
		}
		place := "the whole cluster"
		if parts[4] != "" {
			place = "namespace " + parts[4]
		}
		if kinds[parts[3]] == nil {
			kinds[parts[3]] = sets.New[string]()
		}
		verbs.Insert(parts[1])
		kinds[parts[3]].Insert(parts[2])
		places.Insert(place)
	}
	var groups []string
	for _, group := range slices.Sorted(maps.Keys(kinds)) {
		groups = append(groups, strings.Join(sets.List(kinds[group]), ", ")+" ("+cmp.Or(group, "core")+")")
	}
	return &refusals{fmt.Errorf("you may not %s: %s in %s (ask your administrator for access)",
		strings.Join(sets.List(verbs), " or "), strings.Join(groups, ", "), strings.Join(sets.List(places), " and ")), found}
}

// IsUnreachable reports that the API server was not reached at all.
func IsUnreachable(err error) bool {
	var request *url.Error
	return errors.As(err, &request)
}

// causes are the errors of Kubernetes' client in a tree of errors.
func causes(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := any(err).(interface{ Unwrap() []error }); ok {
		var all []error
		for _, child := range joined.Unwrap() {
			all = append(all, causes(child)...)
		}
		return all
	}
	var request *url.Error
	if errors.As(err, &request) && any(request) == any(err) {
		return []error{err}
	}
	var status *apierrors.StatusError
	if errors.As(err, &status) && any(status) == any(err) {
		return []error{err}
	}
	return causes(errors.Unwrap(err))
}

// plainRequest says why a request had no answer.
func plainRequest(e *url.Error) string {
	server := "the API server"
	if target, err := url.Parse(e.URL); err == nil && target.Host != "" {
		server += " " + target.Scheme + "://" + target.Host
	}
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var network *net.OpError
	var number syscall.Errno
	switch {
	case errors.Is(e, context.Canceled):
		return "interrupted"
	case e.Timeout():
		return server + " did not answer in time"
	case errors.As(e, &name):
		return fmt.Sprintf("%s cannot be found: the name %s does not resolve", server, name.Name)
	case errors.As(e, &certificate):
		return fmt.Sprintf("%s shows a certificate that is not accepted: %v", server, certificate.Err)
	case errors.As(e, &number):
		return fmt.Sprintf("%s cannot be reached: %v", server, number)
	case errors.As(e, &network):
		return fmt.Sprintf("%s cannot be reached: %v", server, network.Err)
	case errors.Is(e, io.EOF), errors.Is(e, io.ErrUnexpectedEOF):
		return server + " closed the connection without an answer"
	}
	return fmt.Sprintf("%s cannot be asked: %v", server, e.Err)
}
