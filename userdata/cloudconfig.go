package userdata

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The directory for scripts on a server; the files' mode restricts them to root.
const (
	userScript = "/var/lib/drover/bootstrap/user-data.sh"
	bootScript = "/var/lib/drover/bootstrap/bootstrap.sh"
)

const configHeader = "#cloud-config\n"

// document is the source as a cloud-config mapping. A script becomes a file and the command that
// runs it.
func (s source) document(scriptPath string) (*yaml.Node, error) {
	switch s.format {
	case Script:
		return scriptConfig(s.data, scriptPath)
	case CloudConfig:
		document, err := parseConfig(s.data, ofInput)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", s.name, err)
		}
		return document, nil
	case Empty, Jinja, MultiPart, Opaque:
		// They contain nothing that could be merged as a mapping.
	}
	return mapping(), nil
}

// parseConfig works on YAML nodes, not on values: cloud-init reads YAML 1.1, where 0644 and yes
// have another meaning than in Go's YAML, so that the user's text must be kept letter by letter.
func parseConfig(data []byte, left budget) (*yaml.Node, error) {
	if countMarks(data) > left.marks {
		return nil, errTooMuch
	}
	// An empty line replaces #cloud-config, so that line numbers are the user's.
	start := len(data) - len(bytes.TrimLeft(data, blanks))
	body := bytes.Repeat([]byte("\n"), bytes.Count(data[:start], []byte("\n")))
	if end := bytes.IndexByte(data[start:], '\n'); end >= 0 {
		body = append(body, data[start+end:]...)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(body))
	var document yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return mapping(), nil
	} else if err != nil {
		return nil, noYAML(err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one YAML document")
	}
	root := document.Content[0]
	if root.Tag == "!!null" {
		return mapping(), nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: it is not a YAML mapping", root.Line)
	}
	return expand(root, &left, 0)
}

// expand replaces aliases by the nodes they refer to: after merging, an anchor's name may have
// another meaning.
func expand(node *yaml.Node, left *budget, depth int) (*yaml.Node, error) {
	left.nodes--
	left.bytes -= len(node.Value) + len(node.HeadComment) + len(node.LineComment) + len(node.FootComment)
	if left.nodes < 0 || left.bytes < 0 || depth > maxDepth {
		return nil, errTooMuch
	}
	if node.Kind == yaml.AliasNode {
		return expand(node.Alias, left, depth+1)
	}
	out := *node
	out.Anchor = ""
	if out.Tag == "!!merge" {
		out.Tag = ""
	}
	out.Content = make([]*yaml.Node, 0, len(node.Content))
	for _, child := range node.Content {
		expanded, err := expand(child, left, depth+1)
		if err != nil {
			return nil, err
		}
		out.Content = append(out.Content, expanded)
	}
	for i := 0; out.Kind == yaml.MappingNode && i < len(out.Content); i += 2 {
		if out.Content[i].Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: it has a list or a mapping as a key, which cloud-init cannot read", node.Line)
		}
	}
	return &out, nil
}

// encodeConfig writes a document so that it parses to the same document, simplified if the encoder
// fails at that: the encoder turns empty values in braces into texts, and lengthens blocks that
// keep their last empty lines if they are folded or followed by a comment.
func encodeConfig(document *yaml.Node) ([]byte, error) {
	if out, err := encode(document); err == nil {
		return out, nil
	}
	simplify(document)
	return encode(document)
}

func encode(document *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(configHeader)
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(document), encoder.Close()); err != nil {
		return nil, errors.New("encoding cloud-config: it cannot be written as YAML")
	}
	read, err := parseConfig(out.Bytes(), ofMerged)
	if err != nil {
		return nil, fmt.Errorf("encoding cloud-config: %w", err)
	}
	if !equal(document, read) {
		return nil, errors.New("encoding cloud-config: it cannot be written as YAML that reads as the same")
	}
	return out.Bytes(), nil
}

func equal(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.ShortTag() == b.ShortTag() && a.Value == b.Value && slices.EqualFunc(a.Content, b.Content, equal)
}

// simplify removes comments, makes empty values explicit and quotes folded text.
func simplify(node *yaml.Node) {
	node.HeadComment, node.LineComment, node.FootComment = "", "", ""
	switch {
	case isNull(node) && node.Value == "":
		node.Value = "null"
	case node.Style&yaml.FoldedStyle != 0:
		node.Style = node.Style&^yaml.FoldedStyle | yaml.DoubleQuotedStyle
	}
	for _, child := range node.Content {
		simplify(child)
	}
}

// scriptConfig writes the script to a file that only root can read, and runs it with the
// interpreter in its first line, as the kernel would, so that it works on a noexec file system.
func scriptConfig(script []byte, path string) (*yaml.Node, error) {
	packed, err := zip(bytes.TrimLeft(script, blanks))
	if err != nil {
		return nil, err
	}
	// The kernel reads a #! line as a program and at most one argument.
	line, _, _ := strings.Cut(string(bytes.TrimLeft(script, blanks)), "\n")
	line = strings.TrimSpace(strings.TrimPrefix(line, "#!"))
	command := sequence(text(cmp.Or(line, "/bin/sh")))
	if space := strings.IndexAny(line, " \t"); space >= 0 {
		command = sequence(text(line[:space]), text(strings.TrimSpace(line[space:])))
	}
	command.Content = append(command.Content, text(path))
	file := mapping()
	put(file, "path", text(path))
	put(file, "owner", text("root:root"))
	put(file, "permissions", quoted("0600"))
	put(file, "encoding", text("gz+b64"))
	put(file, "content", text(base64.StdEncoding.EncodeToString(packed)))
	document := mapping()
	put(document, "write_files", sequence(file))
	put(document, "runcmd", sequence(command))
	return document, nil
}

// mergeMaps adds second to first: plain values of first are kept, lists are joined, mappings
// merged.
func mergeMaps(first, second *yaml.Node, path string) error {
	for _, node := range []*yaml.Node{first, second} {
		seen := map[string]bool{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i].Value
			if seen[key] {
				return fmt.Errorf("the key %s%s is given twice in one document", path, key)
			}
			seen[key] = true
		}
	}
	for i := 0; i+1 < len(second.Content); i += 2 {
		key, value := second.Content[i], second.Content[i+1]
		present := find(first, key.Value)
		if present == nil {
			first.Content = append(first.Content, key, value)
			continue
		}
		if err := mergeValue(present, value, path+key.Value); err != nil {
			return err
		}
	}
	return nil
}

func mergeValue(first, second *yaml.Node, path string) error {
	switch {
	case isNull(second):
		return nil
	case isNull(first):
		*first = *second
		return nil
	case first.Kind != second.Kind:
		return fmt.Errorf("%w: both set %s, one as a list or mapping and the other not", ErrCannotMerge, path)
	case first.Kind == yaml.MappingNode:
		return mergeMaps(first, second, path+".")
	case first.Kind == yaml.SequenceNode:
		// A plain item that the first list already has is left out, such as a package or the user
		// "default". All commands are kept, because a second run may have another effect.
		commands, present := path == "runcmd" || path == "bootcmd", slices.Clone(first.Content)
		for _, item := range second.Content {
			same := func(other *yaml.Node) bool { return other.Kind == yaml.ScalarNode && other.Value == item.Value }
			if commands || item.Kind != yaml.ScalarNode || !slices.ContainsFunc(present, same) {
				first.Content = append(first.Content, item)
			}
		}
	}
	return nil
}
