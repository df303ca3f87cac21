package releases

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/version"
)

// Catalogue is the data by distribution: k3s and rke2.
type Catalogue struct {
	Distributions map[string]Distribution `yaml:"distributions"`
}

// Distribution is the data of one distribution.
type Distribution struct {
	// Installer is the image that installs a release, without its tag. Without a host it comes from
	// Docker Hub, or from the registry that a cluster's system-default-registry names.
	Installer string `yaml:"installer"`
	// ListedOnly refuses releases that are not listed.
	ListedOnly bool `yaml:"listedOnly,omitempty"`
	// Lines are releases by minor version, such as "1.36".
	Lines map[string][]string `yaml:"lines"`
	// Arguments by the role that takes them.
	Arguments Roles `yaml:"arguments"`
}

// Roles has arguments of servers and agents.
type Roles struct {
	Both   Arguments `yaml:"both"`
	Server Arguments `yaml:"server"`
	Agent  Arguments `yaml:"agent"`
}

// Arguments are names by the kind of their value.
type Arguments struct {
	Boolean []string `yaml:"boolean"`
	Number  []string `yaml:"number"`
	List    []string `yaml:"list"`
	Text    []string `yaml:"text"`
}

// Bounds of a catalogue. The default has some 60 releases and 150 arguments in each distribution.
const (
	MaxBytes     = 256 << 10
	maxReleases  = 2000
	maxArguments = 1000
)

//go:embed default.yaml
var embedded []byte

// Default is the catalogue that is built in.
func Default() (*Catalogue, error) { return Parse(embedded) }

// Parse reads a catalogue and validates all of it. The error is for the author of the catalogue.
func Parse(text []byte) (*Catalogue, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("the catalogue of releases has %d bytes: at most %d are read", len(text), MaxBytes)
	}
	// Checked before decoding, because a few aliases can expand to any amount of text.
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("reading the catalogue of releases: %w", err)
	}
	if hasAlias(&document) {
		return nil, errors.New("reading the catalogue of releases: it has a YAML alias; replace the alias by its content")
	}
	catalogue := &Catalogue{}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(catalogue); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the catalogue of releases: %w", err)
	}
	if err := catalogue.validate(); err != nil {
		return nil, fmt.Errorf("checking the catalogue of releases: %w", err)
	}
	return catalogue, nil
}

func hasAlias(node *yaml.Node) bool {
	return node.Kind == yaml.AliasNode || slices.ContainsFunc(node.Content, hasAlias)
}

func (c *Catalogue) validate() error {
	if len(c.Distributions) == 0 {
		return errors.New("it has no distributions")
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Distributions)) {
		if name != K3s && name != RKE2 {
			errs = append(errs, fmt.Errorf("distribution %.40q is neither %s nor %s", name, K3s, RKE2))
			continue
		}
		if err := c.Distributions[name].validate(name); err != nil {
			errs = append(errs, fmt.Errorf("distribution %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

var (
	installer = regexp.MustCompile(`^[a-z0-9]([a-z0-9._:-]*[a-z0-9])?(/[a-z0-9]([a-z0-9._-]*[a-z0-9])?)*$`)
	line      = regexp.MustCompile(`^[1-9][0-9]*\.[0-9]+$`)
	argument  = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
)

func (d Distribution) validate(name string) error {
	var errs []error
	if !installer.MatchString(d.Installer) {
		errs = append(errs, fmt.Errorf("installer %.100q is not an image without a tag", d.Installer))
	}
	if len(d.Lines) == 0 {
		errs = append(errs, errors.New("it has no lines"))
	}
	count := 0
	for _, minor := range slices.Sorted(maps.Keys(d.Lines)) {
		if !line.MatchString(minor) {
			errs = append(errs, fmt.Errorf("line %.40q is not a minor version such as 1.36", minor))
		}
		for _, release := range d.Lines[minor] {
			v, err := parseVersion(release)
			if err != nil || v.distribution != name || v.minor != minor {
				errs = append(errs, fmt.Errorf("%.64q is not a release of %s %.20s", release, name, minor))
			}
			count++
		}
		if len(errs) > 10 {
			break // the author has enough errors to fix
		}
	}
	if count > maxReleases {
		errs = append(errs, fmt.Errorf("it has %d releases, more than %d", count, maxReleases))
	}
	return errors.Join(append(errs, d.Arguments.validate())...)
}

// validate refuses an argument of two kinds: a value could not be checked.
func (r Roles) validate() error {
	seen, count := map[string]bool{}, 0
	for _, role := range []Arguments{r.Both, r.Server, r.Agent} {
		for _, names := range [][]string{role.Boolean, role.Number, role.List, role.Text} {
			for _, name := range names {
				if !argument.MatchString(name) || len(name) > 100 {
					return fmt.Errorf("argument %.100q is not a valid argument name", name)
				}
				if seen[name] {
					return fmt.Errorf("argument %s is listed twice", name)
				}
				if seen[name], count = true, count+1; count > maxArguments {
					return fmt.Errorf("it has more than %d arguments", maxArguments)
				}
			}
		}
	}
	return nil
}

// parsed is a release's name, taken apart.
type parsed struct {
	distribution, minor string
	number              *version.Version
}

var release = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?\+(k3s|rke2)([0-9A-Za-z.-]*)$`)

func parseVersion(text string) (parsed, error) {
	found := release.FindStringSubmatch(text)
	if found == nil || len(text) > 64 {
		return parsed{}, fmt.Errorf("%.64q is not a release of k3s or RKE2, such as v1.36.3+k3s1", text)
	}
	number, err := version.ParseSemantic(text)
	if err != nil {
		return parsed{}, fmt.Errorf("%.64q is not a release of k3s or RKE2: %s", text, strings.TrimSpace(err.Error()))
	}
	return parsed{distribution: found[2], minor: fmt.Sprintf("%d.%d", number.Major(), number.Minor()), number: number}, nil
}
