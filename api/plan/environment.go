package plan

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// EnvironmentFile holds the agent's environment on a server. The install script writes it first, and
// each plan writes it again, also without any variable, so that a removal arrives.
const EnvironmentFile = "/etc/drover/agent.env"

// EnvVar is a variable of the agent's environment.
type EnvVar struct{ Name, Value string }

var (
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// reserved are variables without which neither the install script nor an instruction can run.
	reserved = []string{"PATH", "IFS", "ENV", "LD_PRELOAD", "LD_LIBRARY_PATH"}
)

// Validate returns an error if the install script or the environment file cannot have the variable.
// The error does not repeat the value, which may be a password.
func (v EnvVar) Validate() error {
	switch {
	case !variable.MatchString(v.Name):
		return fmt.Errorf("%.100q is not a valid variable name", v.Name)
	case strings.HasPrefix(v.Name, "DROVER_") || slices.Contains(reserved, v.Name):
		return fmt.Errorf("%s cannot be set, because the install script and the agent need it", v.Name)
	case !IsLine(v.Value):
		return fmt.Errorf("the value of %s is not one line of text", v.Name)
	}
	return nil
}

// IsLine reports whether a text fits into a line of systemd's environment files.
func IsLine(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// escaped quotes the characters that systemd.exec(5) gives a meaning between double quotes.
var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", "$", `\$`)

// EncodeEnvironment returns the content of an environment file in systemd's format. The same
// variables give the same bytes, in the plan and in the install script.
func EncodeEnvironment(variables []EnvVar) []byte {
	lines := make([]string, 0, len(variables))
	for _, v := range variables {
		lines = append(lines, v.Name+`="`+escaped.Replace(v.Value)+`"`)
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

// DecodeEnvironment reads an environment file. A user may have written it with other quotes or with
// comments. A line that is not a variable is an error, and the error does not repeat it.
func DecodeEnvironment(content []byte) ([]EnvVar, error) {
	var variables []EnvVar
	for number, line := range strings.Split(string(content), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		name, text, found := strings.Cut(line, "=")
		if !found || !variable.MatchString(name) {
			return nil, fmt.Errorf("reading an environment file: line %d is not NAME=value", number+1)
		}
		value, err := unquote(text)
		if err != nil {
			return nil, fmt.Errorf("reading an environment file: line %d: %w", number+1, err)
		}
		variables = append(variables, EnvVar{name, value})
	}
	return variables, nil
}

// unquote reads a value: in double quotes, in single quotes, or without quotes.
func unquote(text string) (string, error) {
	quote := byte(0)
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		quote, text = text[0], text[1:]
	}
	var value strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0 && c == quote:
			if i != len(text)-1 {
				return "", errors.New("it continues after the quotes")
			}
			return value.String(), nil
		case c == '\\' && quote != '\'' && i+1 < len(text):
			i++
			value.WriteByte(text[i])
		default:
			value.WriteByte(c)
		}
	}
	if quote != 0 {
		return "", errors.New("its quotes do not end")
	}
	return value.String(), nil
}
