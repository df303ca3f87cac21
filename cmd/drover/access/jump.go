package access

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/drover-project/drover/cmd/drover/facts"
)

// NoJump is OpenSSH's value for no jump host.
const NoJump = "none"

// jumpHost matches one jump host. It becomes a value of ssh_config and an argument of ssh, so no
// other characters are allowed.
var jumpHost = regexp.MustCompile(`^([\pL\pN_][\pL\pN_.+-]*@)?([\pL\pN_][\pL\pN_.-]*|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?$`)

// CheckJump validates jump hosts: [USER@]HOST[:PORT], several separated by commas.
func CheckJump(hosts string) error {
	for host := range strings.SplitSeq(hosts, ",") {
		if !jumpHost.MatchString(host) {
			return fmt.Errorf("the jump host %q is not [USER@]HOST[:PORT]", host)
		}
	}
	return nil
}

// confirmJump asks before the user's ssh logs in to a host that the machine names: the machine's
// owner may be a tenant, and ssh offers that host the user's own keys.
func (l Login) confirmJump(m *facts.Machine, host string) error {
	if l.Confirm == nil {
		return fmt.Errorf("%s names the jump host %s (spec.common.sshContact.jumpHost), and your ssh would log in there with your own keys: "+
			"accept it with -J %s, or connect without it with -J none", m.Name, host, facts.Word(host))
	}
	accepted, err := l.Confirm(fmt.Sprintf("%s names the jump host %s (spec.common.sshContact.jumpHost). Your ssh will log in there with your own keys and known hosts. Continue?",
		m.Name, host))
	if err != nil {
		return err
	}
	if !accepted {
		return fmt.Errorf("the jump host %s was not accepted; -J none connects without it", host)
	}
	return nil
}
