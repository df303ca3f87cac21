package operation

import (
	"path/filepath"
	"slices"
	"strings"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/userdata"
)

// userDataFlag is the first flag whose name says that it takes user data, as rancher/machine finds it.
func (s *session) userDataFlag() string {
	for flag, value := range s.profile.UserData.Unless {
		if s.values[flag] == value {
			return ""
		}
	}
	index := slices.IndexFunc(s.flags, func(flag crdgen.Flag) bool {
		return flag.Type == crdgen.String && slices.ContainsFunc([]string{"user-data", "userdata", "custom-data", "cloud-config"}, func(part string) bool {
			return strings.Contains(flag.Name, part)
		})
	})
	if index < 0 {
		return ""
	}
	return s.flags[index].Name
}

// addUserData hands the bootstrap data and the user's own over to the driver as one file.
func (s *session) addUserData() error {
	flag := s.userDataFlag()
	if flag == "" {
		return nil
	}
	own := s.request.Files[flag]
	if text, _ := s.request.Options[flag].(string); len(own) == 0 && text != "" {
		if userdata.Detect([]byte(text)) == userdata.Opaque {
			return failf(rkev1.SpecInvalidReason, rkev1.ClassInvalid, "the option %s must hold user data, not the path of a file", flag)
		}
		own = []byte(text)
	}
	data, err := userdata.UserData(s.request.Driver.Name, userdata.Input{Bootstrap: s.bootstrap, User: own, Hostname: s.request.InstanceName})
	if err != nil {
		return userDataFailure(err)
	}
	if len(data) == 0 {
		return nil
	}
	s.secrets = append(s.secrets, string(data))
	s.redactor.Add(string(data))
	s.values[flag] = filepath.Join(s.filesDir(), flag, "user-data")
	return writePrivate(s.values[flag].(string), data)
}
