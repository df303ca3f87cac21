// Package kubeconfig reads foreign kubeconfigs, bounded and restricted to their inline fields
// (kubeconfig.go). Package workload connects with the result, package guard bounds keys and
// certificates with the same checks, and the CLI writes it to the user's own file, where a command
// in a kubeconfig would be run.
package kubeconfig

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/rest"

	"github.com/drover-project/drover/api/keys"
)

// maxSize is the size of the largest kubeconfig that is parsed; the usual ones have some 6 KiB.
const maxSize = 64 << 10

// maxNodes is the number of YAML nodes of the largest kubeconfig that is read.
const maxNodes = 2000

// Error explains why a kubeconfig from a Secret is not used. It quotes only names of fields of the
// kubeconfig, because it is shown to users with read access to Clusters but not to Secrets.
type Error struct {
	// Field is the rejected field, such as users[].user.tokenFile.
	Field string
	// Problem describes the error and the remedy.
	Problem string
}

// Error implements error.
func (e *Error) Error() string { return e.Field + ": " + e.Problem }

// refusedFields are client-go's fields that are rejected, with the remedy: fields that name a file,
// a command or an address of the manager's (k8s.io/client-go/tools/clientcmd/api/v1, types Cluster
// and AuthInfo). readCluster and readUser copy the other fields.
var refusedFields = map[string]string{
	"certificate-authority": "names a file, which would be read on the manager: put the content into certificate-authority-data",
	"proxy-url":             "is not used for clusters of users: remove it",
	"client-certificate":    "names a file, which would be read on the manager: put the content into client-certificate-data",
	"client-key":            "names a file, which would be read on the manager: put the content into client-key-data",
	"tokenFile":             "names a file, which would be read on the manager: put the token itself into token",
	"exec":                  "names a command, which would run on the manager: use a token or a client certificate instead",
	"auth-provider":         "is not supported: use a token or a client certificate instead",
	"as":                    "impersonation is not supported: use a credential of the user",
	"as-uid":                "impersonation is not supported: use a credential of the user",
	"as-groups":             "impersonation is not supported: use a credential of the user",
	"as-user-extra":         "impersonation is not supported: use a credential of the user",
}

// Parse makes a configuration from a user's kubeconfig. It contains only the inline values of the
// current context: client-go gets no path, command, proxy or impersonated user.
func Parse(content []byte) (*rest.Config, error) {
	document, err := parsePlainYAML(content)
	if err != nil {
		return nil, &Error{"data.value", err.Error()}
	}
	context, err := namedEntry(document, "contexts", "context", text(document["current-context"]))
	if err != nil {
		return nil, err
	}
	config := &rest.Config{}
	for _, part := range []struct {
		list, key string
		read      func(at string, fields map[string]any, config *rest.Config) error
	}{{"clusters", "cluster", readCluster}, {"users", "user", readUser}} {
		fields, err := namedEntry(document, part.list, part.key, text(context[part.key]))
		if err != nil {
			return nil, err
		}
		at := part.list + "[]." + part.key + "."
		if err := refuseFields(at, fields); err != nil {
			return nil, err
		}
		if err := part.read(at, fields, config); err != nil {
			return nil, err
		}
	}
	return config, nil
}

func readCluster(at string, fields map[string]any, config *rest.Config) (err error) {
	target, err := url.Parse(text(fields["server"]))
	if err != nil || target.Scheme != "https" || target.Hostname() == "" || target.User != nil || target.RawQuery != "" || target.Fragment != "" {
		return &Error{at + "server", "must be an address of the form https://host:port"}
	}
	config.Host = target.String() // as it was understood here
	config.ServerName, config.Insecure = text(fields["tls-server-name"]), fields["insecure-skip-tls-verify"] == true
	if config.CAData, err = inline(at, fields, "certificate-authority-data", keys.CheckCertificates); err != nil {
		return err
	}
	if config.Insecure && len(config.CAData) > 0 {
		return &Error{at + "insecure-skip-tls-verify", "contradicts certificate-authority-data: remove one of them"}
	}
	return nil
}

func readUser(at string, fields map[string]any, config *rest.Config) (err error) {
	config.BearerToken, config.Username, config.Password = text(fields["token"]), text(fields["username"]), text(fields["password"])
	if config.CertData, err = inline(at, fields, "client-certificate-data", keys.CheckCertificates); err != nil {
		return err
	}
	if config.KeyData, err = inline(at, fields, "client-key-data", keys.CheckKey); err != nil {
		return err
	}
	if (len(config.CertData) == 0) != (len(config.KeyData) == 0) {
		return &Error{at + "client-key-data", "must be set together with client-certificate-data: set both or none"}
	}
	if config.BearerToken != "" && config.Username != "" {
		return &Error{at + "username", "contradicts token: remove one of them"}
	}
	return nil
}

// refuseFields returns an error for the first forbidden field in alphabetical order. It ignores
// case, because client-go reads names of fields in upper and lower case alike.
func refuseFields(at string, fields map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		for refused, problem := range refusedFields {
			if strings.EqualFold(name, refused) && !isZero(fields[name]) {
				return &Error{at + refused, problem}
			}
		}
	}
	return nil
}

// isZero reports whether a field has no effect, as in the output of tools that write every field.
func isZero(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// namedEntry finds the entry of a name in one of the three lists.
func namedEntry(document map[string]any, list, key, name string) (map[string]any, error) {
	entries, _ := document[list].([]any)
	var found map[string]any
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		if text(fields["name"]) != name {
			continue
		}
		if found != nil {
			// client-go would take the last.
			return nil, &Error{list + "[].name", "has two entries with the name that is used: keep one"}
		}
		found, _ = fields[key].(map[string]any)
	}
	switch {
	case found != nil:
		return found, nil
	case list == "contexts":
		return nil, &Error{"current-context", "does not name one of the contexts"}
	}
	return nil, &Error{"contexts[].context." + key, "names none of the " + list}
}

// inline decodes a base64 field and checks its content; it returns nil for a missing field.
func inline(at string, fields map[string]any, name string, check func([]byte) error) ([]byte, error) {
	if text(fields[name]) == "" {
		return nil, nil
	}
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text(fields[name])), ""))
	if err != nil {
		return nil, &Error{at + name, "is not base64"}
	}
	if err := check(data); err != nil {
		return nil, &Error{at + name, err.Error()}
	}
	return data, nil
}

func text(value any) string {
	s, _ := value.(string)
	return s
}

// parsePlainYAML reads one bounded document. It rejects aliases before it expands anything: four
// kilobytes of them can mean gigabytes.
func parsePlainYAML(content []byte) (map[string]any, error) {
	if len(content) == 0 {
		return nil, errors.New("is empty: store the kubeconfig under this key")
	}
	if len(content) > maxSize {
		return nil, fmt.Errorf("has more than %d KiB: keep one cluster, one user and one context", maxSize>>10)
	}
	var root yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(content)).Decode(&root); err != nil {
		return nil, errors.New("is not a kubeconfig: its YAML cannot be read")
	}
	if nodes := CountNodes(&root, maxNodes); nodes > maxNodes {
		return nil, errors.New("has YAML aliases or too many fields: keep one cluster, one user and one context, without aliases")
	}
	var document map[string]any
	if err := root.Decode(&document); err != nil {
		return nil, errors.New("is not a kubeconfig: it has no fields")
	}
	return document, nil
}

// CountNodes counts until it is more than most; an alias is more than any number.
func CountNodes(node *yaml.Node, most int) int {
	if node.Kind == yaml.AliasNode || node.Anchor != "" {
		return most + 1
	}
	count := 1
	for _, child := range node.Content {
		if count += CountNodes(child, most); count > most {
			break
		}
	}
	return count
}
