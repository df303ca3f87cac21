package v1

import "regexp"

// Modes of an SSHContact.
const (
	SSHContactAuto = "Auto"
	SSHContactOff  = "Off"
)

// SSHContact is how the Job that made a server logs in to it, and the defaults of `drover ssh`.
//
// +kubebuilder:object:generate=false
type SSHContact struct {
	// Mode is Auto (the default) or Off: the Job does not log in. Off is refused where the
	// bootstrap data goes over SSH.
	// +optional
	Mode string `json:"mode,omitempty"`
	// Port and User on the server; the driver's when empty.
	// +optional
	Port int32 `json:"port,omitempty"`
	// +optional
	User string `json:"user,omitempty"`
	// TimeoutSeconds bounds the contact; by default 120, and 300 where the bootstrap data goes over
	// SSH.
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// JumpHost is the host over which the server is reached, [user@]host[:port]. It has to know the
	// machine's SSH key.
	// +optional
	JumpHost string `json:"jumpHost,omitempty"`
}

// Patterns and limits of an SSHContact. Users and hosts become arguments of ssh and values of an
// ssh_config, so no value may have another meaning there.
const (
	SSHUserPattern     = `^[A-Za-z0-9_][A-Za-z0-9_.@+-]*$`
	SSHJumpHostPattern = `^([A-Za-z0-9_][A-Za-z0-9_.+-]*@)?([A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9a-fA-F:.]+\])` +
		`(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?$`
	MaxSSHUser     = 64
	MaxSSHJumpHost = 320
	MinSSHTimeout  = 1
	MaxSSHTimeout  = 1800
)

var sshJumpHost = regexp.MustCompile(SSHJumpHostPattern)

// IsSSHJumpHost reports whether text is [user@]host[:port].
func IsSSHJumpHost(text string) bool {
	return len(text) <= MaxSSHJumpHost && sshJumpHost.MatchString(text)
}
