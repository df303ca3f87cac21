package clouds

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// words are the error texts of one driver and of its cloud's API, all in small letters.
type words struct {
	// rules map texts to classes. The first match decides, so that more exact rules, and classes
	// that are worse to miss, come first.
	rules []rule
	// gone are the driver's texts for a server that does not exist, in addition to the common ones.
	// elsewhere are words for another missing resource, with which the server's existence stays
	// unknown. A text with the word resource is about the server only if it also has the word
	// server.
	gone, elsewhere  []string
	resource, server string
	// taken are the texts with which the cloud rejects a server because its name exists: all words
	// of one of the lists.
	taken [][]string
	// afterRequest are words of the driver's work between the cloud's acceptance and the moment its
	// record names the server.
	afterRequest []string
	// unsure is true if no text distinguishes the cloud's rejection from errors after its
	// acceptance.
	unsure bool
}

// rule gives a class to error texts that contain one of its phrases, all in small letters.
type rule struct {
	class   string
	phrases []string
}

// Classify returns the class of the failure that a driver's error text describes. A proxy's
// rejection comes first, because its words are the words of a cloud. Then follow the driver's own
// rules, then the rules for every cloud, the HTTP status, network errors, and last
// errors of an operating system or a driver. Addresses in the text are ignored: they repeat names
// that users chose.
func (c Cloud) Classify(text string) string {
	if containsAny(strings.ToLower(text), panicked) {
		return rkev1.ClassUnknown
	}
	text = plain(text)
	if proxyRejects.MatchString(text) {
		return rkev1.ClassTransient
	}
	hungUp := ""
	if endOfFile.MatchString(text) {
		hungUp = rkev1.ClassTransient
	}
	return cmp.Or(match(c.words.rules, text), match(commonRules, text), byStatus(text), match(networkRules, text), hungUp, rkev1.ClassUnknown)
}

var (
	// addresses in error texts, without the mark that ends them.
	addressPattern = regexp.MustCompile(`https?://[^\s"'\]<>]*[^\s"'\]<>:,;.)]`)
	// endOfFile is Go's error when the other side closes the connection; the same letters occur in
	// other words.
	endOfFile = regexp.MustCompile(`\beof\b`)
	// statusPattern finds an HTTP status where clients write it, and no other number of three
	// digits: "…/droplets: 422 (request", "Error 403:", "StatusCode=409", "status code: 429",
	// `"status":404`, "but got 503", "Status=409", "[429] Too many".
	statusPattern = regexp.MustCompile(
		`(?:^\[?|: \[?|error |got |status(?: code)?\\?"?[ =:]+|statuscode[ =:]+|response code |http(?:/[0-9.]+)? )([45][0-9]{2})(?:[^0-9a-z]|$)`)
)

// proxyRejects matches the error of Go's HTTP client if a proxy rejects a CONNECT request. It is the
// status text without the number, directly after the request's address (net/http, transport.go,
// Transport.dialConn). The errors of clouds have a number or other words there.
var proxyRejects = regexp.MustCompile(`address\\?": (?:bad request|unauthorized|forbidden|not found|method not allowed|not acceptable|` +
	`proxy authentication required|request timeout|gone|too many requests|internal server error|not implemented|bad gateway|service unavailable|` +
	`gateway timeout|unknown status code)(?:[.,;)"'\\\]]|\s*(?:\n|$))`)

// ProxyFailed reports whether an error text means that a proxy did not connect a driver to its
// cloud.
func ProxyFailed(text string) bool {
	text = plain(text)
	return proxyRejects.MatchString(text) || strings.Contains(text, "proxyconnect")
}

// panicked are words before a program's stack, in which any word may stand.
var panicked = []string{"panic in the driver:", "\ngoroutine "}

// plain is a text in small letters without the addresses of requests.
func plain(text string) string {
	return addressPattern.ReplaceAllString(strings.ToLower(text), "address")
}

func match(rules []rule, text string) string {
	for _, r := range rules {
		if containsAny(text, r.phrases) {
			return r.class
		}
	}
	return ""
}

func containsAny(text string, phrases []string) bool {
	return slices.ContainsFunc(phrases, func(phrase string) bool { return strings.Contains(text, phrase) })
}

var commonRules = []rule{
	{rkev1.ClassUnauthorized, []string{"unauthorized", "unauthenticated", "authentication required", "invalid credentials", "invalid api key",
		"invalid token", "access denied", "not authorized", "permission denied (publickey"}},
	{rkev1.ClassThrottled, []string{"rate limit", "rate-limit", "rate_limit", "ratelimit", "too many requests", "throttl"}},
	{rkev1.ClassQuota, []string{"quota", "limit exceeded for resource", "limit_exceeded", "maximum number of", "payment required"}},
	{rkev1.ClassCapacity, []string{"out of stock", "sold out", "insufficient capacity", "no capacity", "out of capacity", "resource_unavailable"}},
	{rkev1.ClassUnauthorized, []string{"forbidden"}},
	{rkev1.ClassInvalid, []string{" option is required", "requires the --", "requires either the --", "requires a valid", "must be specified",
		"missing required setting", "is not a valid", "unknown flag", "could not be found", "no such file", "executable file not found",
		"ssh key does not exist"}},
}

// statusOf returns the HTTP status in a text, or an empty string.
func statusOf(text string) string {
	if found := statusPattern.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}

func byStatus(text string) string {
	switch status := statusOf(text); status {
	case "":
		return ""
	case "401", "403", "407":
		return rkev1.ClassUnauthorized
	case "402":
		return rkev1.ClassQuota
	case "429":
		return rkev1.ClassThrottled
	case "408", "409", "423", "425":
		return rkev1.ClassTransient
	default:
		if status[0] == '5' {
			return rkev1.ClassTransient
		}
		return rkev1.ClassInvalid
	}
}

var networkRules = []rule{
	{rkev1.ClassInvalid, []string{"certificate signed by unknown authority", "certificate is valid for", "certificate has expired",
		"certificate is not trusted", "server gave http response to https client", "unsupported protocol scheme"}},
	{rkev1.ClassTransient, []string{"timeout", "timed out", "deadline exceeded", "connection refused", "connection reset", "no such host",
		"broken pipe", "network is unreachable", "no route to host", "temporary failure", "tls handshake", "server misbehaving",
		"service unavailable", "internal server error", "bad gateway", "proxyconnect", "dial tcp", "use of closed network connection",
		"server closed idle connection", "http2: server sent goaway", "try again later",
		"giving up after", "has prevented the request from succeeding", "invalid character '<' looking for beginning of value"}},
}
