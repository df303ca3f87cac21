package rest

import (
	"encoding/json"
	"fmt"
)

// identifier is an id given as a number, or a slug or fingerprint given as text.
type identifier string

// UnmarshalJSON reads a number or a text.
func (i *identifier) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*i = identifier(text)
		return nil
	}
	var number json.Number
	if err := json.Unmarshal(data, &number); err != nil {
		return fmt.Errorf("parsing identifier: %w", err)
	}
	*i = identifier(number.String())
	return nil
}
