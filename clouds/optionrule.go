package clouds

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Rule restricts the value of a flag beyond its type, so that no Job starts that cannot succeed.
// Empty text counts as no value.
type Rule struct {
	// Matches and Without are patterns that a text must and must not match.
	Matches, Without string
	// Least and Most bound an integer.
	Least, Most int64
	// Says is the rule as a sentence for users.
	Says string
}

const (
	ipv4Octet   = `(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])`
	ipv4Pattern = `(` + ipv4Octet + `\.){3}` + ipv4Octet
	ipv6Pattern = `[0-9A-Fa-f]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(%[A-Za-z0-9._-]+)?`
	// dnsPattern's last label is not a number, as RFC 1123 has it, or 300.1.1.1 would be a name.
	dnsPattern = `([A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?\.)*([A-Za-z_]|[0-9]+[A-Za-z_-])[A-Za-z0-9_-]*\.?`
	// opensshEncrypted is the beginning of an OpenSSH key with a passphrase: after its magic comes
	// the length of its cipher's name. Without a passphrase it is 4, because the cipher is called
	// none.
	opensshEncrypted = `b3BlbnNzaC1rZXktdjEAAAAA[^B]`
)

var (
	hostRule       = Rule{Matches: `^(` + ipv4Pattern + `|` + ipv6Pattern + `|` + dnsPattern + `)$`, Says: "must be an IP address or a DNS name, and nothing else: no port, no user, no brackets"}
	portRule       = Rule{Least: 1, Most: 65535, Says: "must be a port, from 1 to 65535"}
	privateKeyRule = Rule{Matches: `^\s*-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`,
		Without: `(BEGIN |: 4,)ENCRYPTED|BEGIN OPENSSH PRIVATE KEY-----\s+` + opensshEncrypted,
		Says:    "must be the content of a private key without passphrase, which begins with -----BEGIN … PRIVATE KEY-----"}
	// osRule uses rancher/machine's criterion: the text "windows" in the value of the flag for the
	// operating system (commands/create.go there).
	osRule = Rule{Without: `(?i)windows`, Says: "is Windows, which is not supported yet: the server would be made and never bootstrapped. Use Linux"}
)

// RuleOf returns the rule for the values of a flag, if there is one. The flag for the operating
// system is any flag with the suffix -os, as in rancher/machine (libmachine/drivers/drivers.go).
func RuleOf(flag string) (Rule, bool) {
	if strings.HasSuffix(flag, "-os") {
		return osRule, true
	}
	for _, c := range known {
		if rule, ok := c.Rules[flag]; ok {
			return rule, true
		}
	}
	return Rule{}, false
}

// Check rejects a value that breaks the rule, without quoting it. It accepts values of other types.
func (r Rule) Check(value any) error {
	text := fmt.Sprint(value)
	if value == nil || text == "" {
		return nil
	}
	if r.Most > 0 {
		if number, err := strconv.ParseInt(text, 10, 64); err != nil || number < r.Least || number > r.Most {
			return errors.New(r.Says)
		}
		return nil
	}
	if !regexp.MustCompile(r.Matches).MatchString(text) || r.Without != "" && regexp.MustCompile(r.Without).MatchString(text) {
		return errors.New(r.Says)
	}
	return nil
}

// CEL is the rule for a schema, over self.
func (r Rule) CEL() string {
	matches := func(pattern string) string { return `self.matches('` + strings.ReplaceAll(pattern, `\`, `\\`) + `')` }
	switch {
	case r.Most > 0:
		return fmt.Sprintf("self == '' || int(self) >= %d && int(self) <= %d", r.Least, r.Most)
	case r.Matches != "" && r.Without != "":
		return "self == '' || " + matches(r.Matches) + " && !" + matches(r.Without)
	case r.Matches != "":
		return "self == '' || " + matches(r.Matches)
	}
	return "!" + matches(r.Without)
}
