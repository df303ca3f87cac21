package operation

import (
	"encoding/base64"
	"errors"
	"fmt"
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
func (s *session) takesUserData() bool { return userdata.Passes(s.way, s.values) }

// withholdUserData leaves the driver's flag for user data empty, with its switches as they will be:
// the driver gets its values more than once, and may open a file at once that is not there yet.
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
	if err := s.checkConflicts(); err != nil {
		return err
	}
	data, err := s.joinUserData(s.ownUserData())
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

// checkConflicts rejects the user's options with which the driver would not pass the bootstrap data
// on. Admission and the machine controller reject most of them earlier; the Job also checks options
// that they do not know, such as options of the credential.
func (s *session) checkConflicts() error {
	name := func(flag string) string { return "the option " + flag }
	conflicts := userdata.Conflicts(s.request.Driver.Name, s.way, s.request.Options, s.request.Files, name)
	if len(conflicts) == 0 {
		return nil
	}
	return failf(rkev1.SpecInvalidReason, rkev1.ClassInvalid, "%s: %s", name(conflicts[0].Flag), conflicts[0].Why)
}

// ownUserData is the user's value for the flag: the content of a file, text, or base64 if the
// driver requires it.
func (s *session) ownUserData() []byte {
	if own := s.request.Files[s.way.Flag]; len(own) > 0 {
		return own
	}
	text, _ := s.request.Options[s.way.Flag].(string)
	if s.way.Habit == clouds.Base64 && userdata.Detect([]byte(text)) == userdata.Opaque {
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
			return decoded
		}
	}
	return []byte(text)
}
