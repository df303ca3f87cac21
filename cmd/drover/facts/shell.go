package facts

import "strings"

// harmless are the characters that mean nothing to a shell.
const harmless = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"

// Word makes a value one word for a shell, for people copy commands that they are shown. An empty
// value stays empty.
func Word(value string) string {
	if strings.Trim(value, harmless) == "" {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}

// Kubectl is how kubectl is called for the cluster that a call of the CLI is for: with the same
// flags, such as --context.
func Kubectl(command string) string {
	_, flags, _ := strings.Cut(command, "drover")
	return "kubectl" + flags
}
