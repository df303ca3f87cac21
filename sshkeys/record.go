package sshkeys

import (
	"encoding/json"
	"errors"
	"path"

	"github.com/drover-project/drover/clouds"
)

// Record reads the driver's record out of the archive of a state; nil when there is none. Its errors quote nothing of it.
func Record(archive []byte) (clouds.Record, error) {
	if len(archive) == 0 {
		return nil, nil
	}
	files, err := ReadArchive(archive)
	if err != nil {
		return nil, errors.New("the state's archive cannot be read")
	}
	for _, file := range files {
		if path.Base(file.Path) != "config.json" {
			continue
		}
		var config struct{ Driver json.RawMessage }
		if err := json.Unmarshal(file.Content, &config); err != nil {
			return nil, errors.New("config.json of the state's archive is no JSON of a machine")
		}
		return clouds.DecodeRecord(config.Driver)
	}
	return nil, nil
}
