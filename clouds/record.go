package clouds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

const (
	maxRecordBytes = 512 << 10
	maxText        = 512
)

// Record is a driver's configuration with its facts about the server, as its plugin returns it.
type Record map[string]any

// DecodeRecord reads a record, which comes from foreign code.
func DecodeRecord(raw []byte) (Record, error) {
	if len(raw) > maxRecordBytes {
		return nil, fmt.Errorf("reading the driver's record: %d bytes, at most %d are accepted", len(raw), maxRecordBytes)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var record Record
	if err := decoder.Decode(&record); err != nil || record == nil {
		return nil, errors.New("reading the driver's record: it is no JSON object")
	}
	return record, nil
}

// Text is a field as text: empty when it is missing, zero, not plain, or no text for an identifier.
func (r Record) Text(field string) string {
	switch value := r[field].(type) {
	case string:
		return clean(value)
	case json.Number:
		if _, err := strconv.ParseUint(value.String(), 10, 64); err == nil && value != "0" {
			return clean(value.String())
		}
	}
	return ""
}

// clean is a text that can be an identifier; empty when it cannot.
func clean(text string) string {
	if text == nilUUID || len(text) > maxText || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return ""
	}
	return text
}

// nilUUID is the empty value of drivers with a UUID type.
const nilUUID = "00000000-0000-0000-0000-000000000000"

// ServerID returns the ID of the server at the cloud, or an empty string if the record has none.
func (c Cloud) ServerID(record Record) string {
	if c.ID == "" {
		return ""
	}
	return record.Text(c.ID)
}

// Fill replaces each {Field} of a template by the record's field; {field} is the same in lower
// case. The result is empty if a field is empty, or if the template is invalid.
func Fill(template string, record Record) string {
	literal := placeholder.ReplaceAllString(template, "")
	if strings.Contains(literal, "{") || len(Missing(template, record)) > 0 {
		return ""
	}
	return clean(placeholder.ReplaceAllStringFunc(template, func(braced string) string { return fieldText(strings.Trim(braced, "{}"), record) }))
}

// Missing are the fields that a template names and the record has empty.
func Missing(template string, record Record) []string {
	var missing []string
	for _, name := range placeholder.FindAllStringSubmatch(template, -1) {
		if fieldText(name[1], record) == "" {
			missing = append(missing, name[1])
		}
	}
	return missing
}

func fieldText(name string, record Record) string {
	if text := record.Text(name); text != "" {
		return text
	}
	upper := strings.ToUpper(name[:1]) + name[1:]
	if upper == name {
		return ""
	}
	return strings.ToLower(record.Text(upper))
}

// Unfill is the reverse of Fill: it returns the fields of the record from which a template made the
// text, or nil if the text does not match.
func Unfill(template, text string) Record {
	names := placeholder.FindAllStringSubmatch(template, -1)
	var form strings.Builder
	for i, literal := range placeholder.Split(template, -1) {
		if i > 0 {
			form.WriteString("([^/]+)")
		}
		form.WriteString(regexp.QuoteMeta(literal))
	}
	values := regexp.MustCompile("^" + form.String() + "$").FindStringSubmatch(text)
	if len(names) == 0 || values == nil {
		return nil
	}
	record := Record{}
	for i, name := range names {
		// In small letters it may be the field in large ones.
		record[name[1]], record[strings.ToUpper(name[1][:1])+name[1][1:]] = values[i+1], values[i+1]
	}
	return record
}

var placeholder = regexp.MustCompile(`\{([^{}]+)\}`)
