package machinedir

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-project/drover/clouds"
)

// configVersion is the version of rancher/machine's config.json.
const configVersion = 3

// hostConfig is rancher/machine's config.json. Its parts on engines and swarms are passed through.
type hostConfig struct {
	ConfigVersion int
	Driver        json.RawMessage
	DriverName    string
	HostOptions   json.RawMessage
	Name          string
}

// Record reads the driver's record out of config.json, or returns nil without one. Paths in the
// store of another machine, as in an imported archive, are redirected to this store.
func (d Directory) Record() (clouds.Record, error) {
	content, err := os.ReadFile(d.Path(configFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading config.json: %w", err)
	}
	var config hostConfig
	if err := json.Unmarshal(content, &config); err != nil {
		return nil, errors.New("reading config.json: it is not the JSON of a machine")
	}
	record, err := clouds.DecodeRecord(config.Driver)
	if err != nil {
		return nil, err
	}
	old, _ := record["StorePath"].(string)
	isElsewhere := !slices.Contains([]string{"", d.Store}, old)
	for field, value := range record {
		text, _ := value.(string)
		if rest, below := strings.CutPrefix(text, strings.TrimSuffix(old, "/")+"/"); below && isElsewhere {
			record[field] = filepath.Join(d.Store, filepath.FromSlash(rest))
		}
	}
	record["StorePath"] = d.Store
	return record, nil
}

// Config returns the config.json to keep: the record without secrets, and the parts of an earlier
// config.json that do not belong to the driver.
func (d Directory) Config(driverName string, record clouds.Record, secrets []string, documents ...string) ([]byte, error) {
	raw, err := json.Marshal(Scrub(record, secrets, documents...))
	if err != nil {
		return nil, fmt.Errorf("encoding the driver's record: %w", err)
	}
	config := hostConfig{}
	if earlier, err := os.ReadFile(d.Path(configFile)); err == nil {
		_ = json.Unmarshal(earlier, &config)
	}
	if len(config.HostOptions) == 0 {
		config.HostOptions = json.RawMessage(`{"AuthOptions":{"StorePath":""},"EngineOptions":{},"SwarmOptions":{}}`)
	}
	config.ConfigVersion, config.Driver, config.DriverName, config.Name = configVersion, raw, driverName, d.Name
	out, err := json.MarshalIndent(config, "", "    ")
	if err != nil {
		return nil, fmt.Errorf("encoding config.json: %w", err)
	}
	return out, nil
}

// minSecret: shorter values are words that may stand in a record for other reasons.
const minSecret = 4

// Scrub returns the record without the values of secrets, plain or in base64. The driver gets them
// on every run, so that they need not be stored and a rotated credential takes effect immediately.
// Documents, such as user data, are removed wherever they occur: within longer texts (drivers join
// them with others) and deeper in the record. They are never needed again.
func Scrub(record clouds.Record, secrets []string, documents ...string) clouds.Record {
	hidden := map[string]bool{}
	for _, secret := range secrets {
		if len(secret) >= minSecret {
			hidden[secret] = true
			hidden[base64.StdEncoding.EncodeToString([]byte(secret))] = true
		}
	}
	var within []string
	for _, document := range documents {
		if len(document) >= minSecret {
			within = append(within, document, base64.StdEncoding.EncodeToString([]byte(document)))
		}
	}
	holds := func(text string) bool {
		return slices.ContainsFunc(within, func(document string) bool { return strings.Contains(text, document) })
	}
	out := make(clouds.Record, len(record))
	for field, value := range record {
		if text, ok := value.(string); ok && hidden[text] {
			value = ""
		}
		out[field] = scrubbed(value, holds)
	}
	return out
}

func scrubbed(value any, holds func(string) bool) any {
	switch v := value.(type) {
	case string:
		if holds(v) {
			return ""
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			out[key] = scrubbed(inner, holds)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = scrubbed(inner, holds)
		}
		return out
	}
	return value
}

// Renew returns the record with fresh credentials: a field in which a newly configured driver holds
// the value of a credential takes that value. Fields that the record lacks are taken from the
// present options.
func Renew(record, fresh clouds.Record, credentials []string) clouds.Record {
	given := map[string]bool{}
	for _, credential := range credentials {
		if len(credential) >= minSecret {
			given[credential] = true
		}
	}
	out := make(clouds.Record, len(record))
	maps.Copy(out, record)
	for field, value := range fresh {
		text, ok := value.(string)
		if current, present := out[field]; ok && (given[text] || present && current == "") {
			out[field] = value
		}
	}
	return out
}
