// Package flagvalues gives the driver's flags values of the types that the driver asserts, and
// writes file contents where only the Job can read them.
package flagvalues

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/sshkeys"
)

// Of gives every flag of the driver a value of its type, as the command line would: from the
// request, else from the credential's environment variable that the flag names, else the flag's
// default. Errors name flags, never values.
func Of(flags []crdgen.Flag, request jobrunner.Request, files map[string]string, tolerant bool) (map[string]any, error) {
	// Those of rancher/machine's create command that drivers look at beside their own.
	values := map[string]any{
		"swarm-master": false, "swarm-host": "", "swarm-discovery": "", "engine-install-url": "", "tls-san": []string{},
	}
	known := map[string]bool{}
	for _, flag := range flags {
		known[flag.Name] = true
		value, err := flagValue(flag, request, files)
		if tolerant && errors.Is(err, errNoURL) {
			value, err = "", nil
		}
		if err != nil {
			return nil, fmt.Errorf("the option %s: %w", flag.Name, err)
		}
		values[flag.Name] = value
	}
	for name := range request.Options {
		if !known[name] && !tolerant {
			return nil, fmt.Errorf("the driver %s has no option %s", request.Driver.Name, name)
		}
	}
	return values, nil
}

func flagValue(flag crdgen.Flag, request jobrunner.Request, files map[string]string) (any, error) {
	if path, ok := files[flag.Name]; ok && flag.Type == crdgen.String {
		return path, nil
	}
	if given, ok := request.Options[flag.Name]; ok && given != nil {
		return userValue(flag, given)
	}
	for name := range strings.SplitSeq(flag.EnvVar, ",") {
		if text, ok := request.CredentialEnv[strings.TrimSpace(name)]; ok && name != "" {
			return userValue(flag, text)
		}
	}
	return Typed(flag.Type, flag.Default)
}

// userValue rejects a path if the driver would open it. It accepts the driver's own default.
func userValue(flag crdgen.Flag, given any) (any, error) {
	value, err := Typed(flag.Type, given)
	text, _ := value.(string)
	if !crdgen.OnlyURL(flag.Name) || text == "" || value == flag.Default {
		return value, err
	}
	if target, err := url.ParseRequestURI(text); err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Host == "" {
		return nil, errNoURL
	}
	return value, nil
}

var errNoURL = errors.New("it must be an address that begins with http:// or https://, because a path would name a file of the Job's pod")

// Typed makes the Go type that the driver asserts; nil becomes the zero value.
func Typed(kind crdgen.FlagType, given any) (any, error) {
	value, err := kind.Value(given)
	if text, isText := given.(string); isText {
		value, err = kind.Parse(text)
	}
	if err != nil {
		return nil, err
	}
	switch v := value.(type) {
	case nil:
		return map[crdgen.FlagType]any{crdgen.String: "", crdgen.Int: 0, crdgen.Bool: false, crdgen.StringSlice: []string{}}[kind], nil
	case int64:
		return int(v), nil
	}
	return value, nil
}

// flagName matches flags that may become the name of a directory.
var flagName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$`)

// WriteFiles writes the contents of file options where only the Job can read them, always under the
// same path, because the driver's record may name it. It writes the public half beside an SSH key,
// because several drivers need it.
func WriteFiles(dir string, files map[string][]byte) (map[string]string, error) {
	paths := make(map[string]string, len(files))
	for flag, content := range files {
		if len(content) == 0 || !flagName.MatchString(flag) {
			continue
		}
		name := "content"
		public, err := sshkeys.PublicOf(content, flag)
		if err == nil {
			name = "id_rsa"
		}
		paths[flag] = filepath.Join(dir, flag, name)
		if err := WritePrivate(paths[flag], content); err != nil {
			return nil, err
		}
		if public == nil {
			continue
		}
		if err := WritePrivate(paths[flag]+".pub", public); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// WritePrivate writes a file, and the directory that it is in, where only we can read it.
func WritePrivate(name string, content []byte) error {
	err := os.MkdirAll(filepath.Dir(name), 0o700)
	if err == nil {
		err = os.WriteFile(name, content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing an option's file: %w", err)
	}
	return nil
}
