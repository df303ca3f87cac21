package sshkeys

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// ConfigFiles are the paths an ssh_config names.
type ConfigFiles struct {
	// Identity is the private key's file, KnownHosts the file with the keys under the alias
	// (RenameKnownHosts).
	Identity   string
	KnownHosts string
}

// ConfigOption is an option of an ssh_config; ssh and scp take it as -o Name=Value.
type ConfigOption struct{ Name, Value string }

// ConfigOptions are the options with which OpenSSH logs in under alias, with the recorded host key
// and no other. Values are quoted as ssh_config requires.
func ConfigOptions(alias string, access Access, files ConfigFiles) ([]ConfigOption, error) {
	access, err := access.checked()
	if err != nil {
		return nil, err
	}
	if !loginName.MatchString(access.User) {
		return nil, fmt.Errorf("writing an ssh_config: User: %q is not of letters, digits and . _ @ + - alone, and OpenSSH would take other signs for something else", access.User)
	}
	tokens := strings.NewReplacer("%", "%%") // of the options in which OpenSSH expands them
	options := []ConfigOption{
		{"HostName", tokens.Replace(access.Host)},
		{"Port", fmt.Sprint(access.Port)},
		{"User", access.User},
		{"IdentityFile", tokens.Replace(files.Identity)},
		{"IdentitiesOnly", "yes"},
		{"HostKeyAlias", alias},
		{"UserKnownHostsFile", tokens.Replace(files.KnownHosts)},
		{"GlobalKnownHostsFile", "none"},
		{"StrictHostKeyChecking", "yes"},
	}
	if access.Jump != "" {
		options = append(options, ConfigOption{"ProxyJump", access.Jump})
	}
	for i, option := range options {
		value := option.Value
		// Values with spaces are quoted; ssh_config has no escape for a quote, a line break or a
		// variable.
		if value == "" || strings.Contains(value, "${") || strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) || r == '"' || r == '\'' }) {
			return nil, fmt.Errorf("writing an ssh_config: %s: the value %q cannot be written", option.Name, value)
		}
		if strings.ContainsFunc(value, unicode.IsSpace) {
			options[i].Value = `"` + value + `"`
		}
	}
	return options, nil
}

// Config is a Host block of an ssh_config with the ConfigOptions.
func Config(alias string, access Access, files ConfigFiles) (string, error) {
	options, err := ConfigOptions(alias, access, files)
	if err != nil {
		return "", err
	}
	if strings.ContainsAny(alias, "*?!, ") {
		return "", fmt.Errorf("writing an ssh_config: the name %q is a pattern", alias)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "Host %s\n", alias)
	for _, option := range options {
		fmt.Fprintf(&out, "  %s %s\n", option.Name, option.Value)
	}
	return out.String(), nil
}

// loginName also matches DOMAIN\user and the account of a machine, user$. Newer OpenSSH expands
// tokens and variables in User, where older versions take an escape as part of the name, and a
// user's ProxyCommand may pass it to a shell.
var loginName = regexp.MustCompile(`^[\pL\pN_](\\?[\pL\pN_.@+-])*\$?$`)
