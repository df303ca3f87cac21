package userdata

import (
	"bytes"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Input is the input for a server's user data.
type Input struct {
	// Bootstrap is the data of the bootstrap Secret; may be empty.
	Bootstrap []byte
	// User is the user's own data; may be empty.
	User []byte
	// Hostname is set unless the data sets one; empty leaves it to the cloud.
	Hostname string
	// Marker is a word by which the arrival of the bootstrap data is visible on the server. The
	// result creates the file DeliveredDir/Marker when cloud-init reads it, and Marker.ran when its
	// commands have ended, with the exit code of the last one, or of a bootstrap script. cloud-init
	// has that code, too. If the user has data of their own, the result also creates Marker.began
	// after the user's commands: these can end the one shell script that cloud-init makes of all
	// commands. Without a marker, or without bootstrap data that can be joined, nothing is added.
	Marker string
}

// DeliveredDir holds the files of Input.Marker.
const DeliveredDir = "/var/lib/drover/delivered"

// Begins is a line of the file DeliveredDir/Marker if the data also makes the file Marker.began.
const Begins = "began"

// source is one of the two inputs, unzipped.
type source struct {
	name   string
	data   []byte
	format Format
}

// Merge joins the inputs: the user's first, then the bootstrap data. If both set the same plain
// value, the user's takes precedence; lists are joined. Scripts become a file of mode 0600 and a
// command. The result is one #cloud-config if possible, else a MIME multi-part message, or nil for
// empty inputs. Errors can be ErrCannotMerge; none quotes the data.
func Merge(input Input) ([]byte, error) {
	user, err := newSource(ofUser, input.User)
	if err != nil {
		return nil, err
	}
	boot, err := newSource(ofBootstrap, input.Bootstrap)
	if err != nil {
		return nil, err
	}
	if out, done, err := passOpaque(user, boot); done {
		return out, err
	}
	mergeable := []Format{Empty, Script, CloudConfig} // into a single #cloud-config
	if !slices.Contains(mergeable, user.format) || !slices.Contains(mergeable, boot.format) {
		return mergeParts(user, boot, input)
	}
	document, err := user.document(userScript)
	if err != nil {
		return nil, err
	}
	if err := begin(document, user, boot, input); err != nil {
		return nil, err
	}
	second, err := boot.document(bootScript)
	if err != nil {
		return nil, err
	}
	if err := mergeMaps(document, second, ""); err != nil {
		return nil, fmt.Errorf("merging user data: %w", err)
	}
	if err := finish(document, user, boot, input); err != nil || len(document.Content) == 0 {
		return nil, err
	}
	return encodeConfig(document)
}

// Names of the two in errors.
const (
	ofUser      = "the user's own user data"
	ofBootstrap = "the bootstrap data"
)

func newSource(name string, data []byte) (source, error) {
	data, err := Unzip(data)
	if err != nil {
		return source{}, fmt.Errorf("reading %s: %w", name, err)
	}
	data = withoutTemplate(withoutMark(data))
	return source{name: name, data: data, format: Detect(data)}, nil
}

// withoutTemplate turns a template without template expressions into its own format. kubeadm's
// bootstrap provider writes such templates: it always adds the header (cluster-api v1.14,
// bootstrap/kubeadm/internal/cloudinit). An empty line replaces the header, so that line numbers in
// errors stay right.
func withoutTemplate(data []byte) []byte {
	if Detect(data) != Jinja {
		return data
	}
	start := len(data) - len(bytes.TrimLeft(data, blanks))
	end := bytes.IndexByte(data[start:], '\n')
	if end < 0 {
		return data
	}
	rest := data[start+end:]
	for _, mark := range []string{"{{", "{%", "{#"} {
		if bytes.Contains(rest, []byte(mark)) {
			return data
		}
	}
	if format := Detect(rest); format != CloudConfig && format != Script {
		return data
	}
	return append(bytes.Clone(data[:start]), rest...)
}

// passOpaque passes data of an unknown format on unchanged if it is alone.
func passOpaque(user, boot source) ([]byte, bool, error) {
	for _, pair := range [][2]source{{user, boot}, {boot, user}} {
		opaque, other := pair[0], pair[1]
		if opaque.format != Opaque {
			continue
		}
		if other.format != Empty {
			return nil, true, fmt.Errorf("merging user data: %w: %s is neither a script, nor cloud-config, nor MIME multi-part, so it cannot be joined with %s",
				ErrCannotMerge, opaque.name, other.name)
		}
		return opaque.data, true, nil
	}
	return nil, false, nil
}

// begin adds the command that creates Marker.began between the user's commands and the bootstrap
// data's commands.
func begin(document *yaml.Node, user, boot source, input Input) error {
	if !begins(user, boot, input) {
		return nil
	}
	ours := mapping()
	put(ours, "runcmd", sequence(text(fmt.Sprintf(": > %s/%s.began", DeliveredDir, input.Marker))))
	if err := mergeMaps(document, ours, ""); err != nil {
		return fmt.Errorf("merging user data: %w", err)
	}
	return nil
}

// begins reports whether the user's commands can prevent the bootstrap data's commands from
// running.
func begins(user, boot source, input Input) bool {
	return input.Marker != "" && user.format != Empty && boot.format != Empty
}

// finish adds Drover's entries to a document that has the rest already.
func finish(document *yaml.Node, user, boot source, input Input) error {
	if input.Hostname != "" && find(document, "hostname") == nil && find(document, "fqdn") == nil {
		put(document, "hostname", quoted(input.Hostname))
	}
	if input.Marker == "" || boot.format == Empty {
		return nil
	}
	name := DeliveredDir + "/" + input.Marker
	content := input.Marker
	if begins(user, boot, input) {
		content += "\n" + Begins + "\n"
	}
	file := mapping()
	put(file, "path", text(name))
	put(file, "permissions", quoted("0644"))
	put(file, "content", quoted(content))
	ours := mapping()
	put(ours, "write_files", sequence(file))
	// cloud-init makes one shell script of all commands, and takes its exit code for theirs. The
	// file never exists without the code.
	put(ours, "runcmd", sequence(text(fmt.Sprintf("code=$?; echo $code > %[1]s.code && mv %[1]s.code %[1]s.ran; (exit $code)", name))))
	if err := mergeMaps(document, ours, ""); err != nil {
		return fmt.Errorf("merging user data: %w", err)
	}
	return nil
}
