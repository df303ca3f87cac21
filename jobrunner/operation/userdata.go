package operation

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner/operation/flagvalues"
	"github.com/drover-project/drover/userdata"
)

// learnWay finds out how the driver takes user data, once its flags are known. It fails no
// operation yet, because a removal needs no user data.
func (s *session) learnWay() {
	if s.way = s.request.UserData; s.way.Habit != clouds.Unknown {
		return
	}
	fields := make([]crdgen.Field, len(s.flags))
	for i, flag := range s.flags {
		fields[i] = crdgen.Field{Flag: flag.Name, Type: flag.Type}
	}
	s.way, s.wayErr = userdata.Way(s.request.Driver.Name, "", fields)
}

// takesUserData reports whether the driver passes user data to the server.
func (s *session) takesUserData() bool {
	for flag, value := range s.way.Unless {
		if fmt.Sprint(s.values[flag]) == value {
			return false
		}
	}
	return s.way.Flag != ""
}

// withholdUserData leaves the driver's flag for user data empty, with its switches as they will be: the driver gets its values
// more than once, and may open a file at once that is not there yet.
func (s *session) withholdUserData() error {
	if !s.takesUserData() {
		return nil
	}
	s.values[s.way.Flag] = ""
	for flag, value := range s.way.With {
		index := slices.IndexFunc(s.flags, func(f crdgen.Flag) bool { return f.Name == flag })
		if index < 0 {
			continue
		}
		typed, err := flagvalues.Typed(s.flags[index].Type, value)
		if err != nil {
			return failf(rkev1.OptionsInvalidReason, rkev1.ClassInvalid, "the option %s, which passes on user data: %w", flag, err)
		}
		s.values[flag] = typed
	}
	return nil
}

// addUserData passes the bootstrap data and the user's own data to the driver, in its form.
func (s *session) addUserData() error {
	if unknown, ok := errors.AsType[*userdata.UnknownHabitError](s.wayErr); ok && len(s.bootstrap) == 0 {
		s.note("%v", unknown) // the driver gets the user's data unchanged
		return nil
	}
	if s.wayErr != nil {
		return fail(rkev1.UserDataHabitUnknownReason, rkev1.ClassInvalid, s.wayErr)
	}
	if !s.takesUserData() {
		return nil
	}
	if err := s.checkExclusive(); err != nil {
		return err
	}
	own, err := s.ownUserData()
	if err != nil {
		return err
	}
	data, err := s.joinUserData(own)
	if _, tooLarge := errors.AsType[*userdata.TooLargeError](err); tooLarge {
		return fail(rkev1.UserDataTooLargeReason, rkev1.ClassInvalid, err)
	}
	if err != nil {
		return fail(rkev1.UserDataInvalidReason, rkev1.ClassInvalid, fmt.Errorf("%w: correct that in the bootstrap Secret or in the machine's template", err))
	}
	if len(data) == 0 {
		return nil
	}
	// The data for the driver is neither stored nor reported.
	secrets, value := []string{string(data)}, string(data)
	switch s.way.Habit {
	case clouds.Base64:
		value = base64.StdEncoding.EncodeToString(data)
		secrets = append(secrets, value)
	case clouds.PathAtCreate, clouds.PathEarly:
		value = filepath.Join(s.filesDir(), s.way.Flag, "user-data")
		if err := flagvalues.WritePrivate(value, data); err != nil {
			return err
		}
	case clouds.Inline, clouds.None, clouds.Unknown:
	}
	s.handed = append(s.handed, secrets...)
	s.redactor.Add(secrets...)
	s.values[s.way.Flag] = value
	return nil
}

// joinUserData joins the bootstrap data and the user's own data, with a mark that proves the
// delivery if there is space for one.
func (s *session) joinUserData(own []byte) ([]byte, error) {
	input := userdata.Input{Bootstrap: s.bootstrap, User: own, Hostname: s.request.InstanceName, Marker: s.deliveryMark()}
	data, err := userdata.UserData(s.request.Driver.Name, input)
	if _, tooLarge := errors.AsType[*userdata.TooLargeError](err); tooLarge {
		input.Marker = "" // the proof is worth no refusal
		data, err = userdata.UserData(s.request.Driver.Name, input)
	}
	if err != nil || len(data) == 0 {
		return nil, err
	}
	format := userdata.Opaque
	if boot, err := userdata.Inspect(s.bootstrap); err == nil {
		format = boot.Format
	}
	s.marked = input.Marker != "" && format != userdata.Opaque && format != userdata.Empty
	return data, nil
}

// checkExclusive refuses options of the user's that the driver does not take beside the flag for user data, or with which that
// would mean something else.
func (s *session) checkExclusive() error {
	for _, flag := range s.way.Excludes {
		if given, _ := s.request.Options[flag].(string); given != "" || len(s.request.Files[flag]) > 0 {
			return failf(rkev1.SpecInvalidReason, rkev1.ClassInvalid,
				"driver %s does not support the option %s together with %s, which carries the bootstrap data: put your user data into %s; Drover merges both", s.request.Driver.Name, flag, s.way.Flag, s.way.Flag)
		}
	}
	for _, flag := range slices.Sorted(maps.Keys(s.way.With)) {
		given, ok := s.request.Options[flag]
		if ok && given != nil && fmt.Sprint(given) != s.way.With[flag] {
			return failf(rkev1.SpecInvalidReason, rkev1.ClassInvalid,
				"the option %s must be %s or unset: with another value, driver %s interprets the user data in %s differently", flag, s.way.With[flag], s.request.Driver.Name, s.way.Flag)
		}
	}
	return nil
}

// ownUserData is the user's value for the flag: the content of a file, text, or base64 if the
// driver requires it.
func (s *session) ownUserData() ([]byte, error) {
	if own := s.request.Files[s.way.Flag]; len(own) > 0 {
		return own, nil
	}
	text, _ := s.request.Options[s.way.Flag].(string)
	known := userdata.Detect([]byte(text)) != userdata.Opaque
	switch s.way.Habit {
	case clouds.Base64:
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil && !known {
			return decoded, nil
		}
	case clouds.PathAtCreate, clouds.PathEarly:
		if !known {
			return nil, failf(rkev1.SpecInvalidReason, rkev1.ClassInvalid, "the option %s must hold user data, not the path of a file", s.way.Flag)
		}
	case clouds.Inline, clouds.None, clouds.Unknown:
	}
	return []byte(text), nil
}
