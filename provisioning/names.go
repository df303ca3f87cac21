package provisioning

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName is the longest name of an object: it becomes a label's value.
const maxName = 63

// Name joins parts with dashes. A longer name than 63 characters is cut, and ends with the first
// digits of its SHA-256, as in github.com/rancher/wrangler, pkg/name: 57 characters, a dash and 5
// digits; or 56, a dash and 6, if the 57th is not a lower-case letter or a digit.
func Name(parts ...string) string {
	whole := strings.Join(parts, "-")
	if len(whole) <= maxName {
		return whole
	}
	sum := sha256.Sum256([]byte(whole))
	digits := hex.EncodeToString(sum[:])
	keep := maxName - 6
	if last := whole[keep-1]; last < '0' || last > '9' && last < 'a' || last > 'z' {
		keep--
	}
	return whole[:keep] + "-" + digits[:maxName-1-keep]
}

// BootstrapTemplateName is the name of the RKEBootstrapTemplate that all pools of a cluster share.
func BootstrapTemplateName(cluster string) string { return Name(cluster, "bootstrap", "template") }
