package operation

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation/flagvalues"
	"github.com/drover-project/drover/jobrunner/operation/plugin"
	"github.com/drover-project/drover/jobrunner/operation/redact"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/userdata"
)

// configured is a session whose driver has been asked for its flags.
func configured(t *testing.T, name string, options map[string]any) *session {
	t.Helper()
	s, _ := underWay(t, name)
	flags, ok := driver.Builtin(name)
	require.True(t, ok)
	s.flags = flags
	s.request.Options = options
	values, err := flagvalues.Of(flags, s.request, nil, false)
	require.NoError(t, err)
	s.values = values
	s.learnWay()
	return s
}

// TestUserDataFlag_of_every_driver: a driver that gets a flag for user data, or loses it, bootstraps in another way.
func TestUserDataFlag_of_every_driver(t *testing.T) {
	want := map[string]string{
		"amazonec2": "amazonec2-userdata", "azure": "azure-custom-data", "digitalocean": "digitalocean-userdata", "exoscale": "exoscale-userdata",
		"google": "google-userdata", "openstack": "openstack-user-data-file", "pod": "pod-userdata",
	}
	for _, name := range driver.BuiltinNames() {
		require.Equal(t, want[name], handsOver(configured(t, name, nil)), name)
	}
	for kind, want := range map[string]string{
		// Legacy, the default, starts from an image that knows no user data.
		"legacy": "", "template": "vmwarevsphere-cloud-config", "vm": "vmwarevsphere-cloud-config", "library": "vmwarevsphere-cloud-config",
	} {
		require.Equal(t, want, handsOver(configured(t, "vmwarevsphere", map[string]any{"vmwarevsphere-creation-type": kind})), kind)
	}
}

func handsOver(s *session) string {
	if !s.takesUserData() {
		return ""
	}
	return s.way.Flag
}

// TestAddUserData_in_the_form_a_driver_takes: one case per habit, with what the driver's flags are when it gets its values first,
// and when it makes the server.
func TestAddUserData_in_the_form_a_driver_takes(t *testing.T) {
	const script = "#!/bin/sh\necho MARKER-token\n"
	const whole = "#cloud-config\n"
	for name, c := range map[string]struct {
		way     string
		options map[string]any
		first   map[string]any
		then    func(t *testing.T, values map[string]any) string
		own     bool
		err     string
	}{
		"inline": {way: "flag=acme-user-data,habit=inline", then: func(_ *testing.T, v map[string]any) string { return v["acme-user-data"].(string) }},
		"inline, with the user's": {way: "flag=acme-user-data,habit=inline", options: map[string]any{"acme-user-data": whole + "packages: [jq]\n"}, own: true,
			then: func(_ *testing.T, v map[string]any) string { return v["acme-user-data"].(string) }},
		"base64":                  {way: "flag=acme-user-data,habit=base64", then: unbase64},
		"base64, with the user's": {way: "flag=acme-user-data,habit=base64", options: map[string]any{"acme-user-data": base64.StdEncoding.EncodeToString([]byte(whole + "packages: [jq]\n"))}, own: true, then: unbase64},
		"base64, user's is not":   {way: "flag=acme-user-data,habit=base64", options: map[string]any{"acme-user-data": whole + "packages: [jq]\n"}, own: true, then: unbase64},
		"path":                    {way: "flag=acme-user-data,habit=path", then: ofFile},
		"path-early":              {way: "flag=acme-user-data,habit=path-early", then: ofFile},
		"a switch": {way: "flag=acme-user-data,habit=path-early,with=acme-from-file=true", first: map[string]any{"acme-from-file": true},
			then: func(t *testing.T, v map[string]any) string {
				t.Helper()
				require.Equal(t, true, v["acme-from-file"])
				return ofFile(t, v)
			}},
		"the user says the same": {way: "flag=acme-user-data,habit=path,with=acme-from-file=true", options: map[string]any{"acme-from-file": true}, then: ofFile},
		"the user says another": {way: "flag=acme-user-data,habit=inline,with=acme-from-file=false", options: map[string]any{"acme-from-file": true},
			err: "the option acme-from-file: must be false or unset"},
		"exclusive pair": {way: "flag=acme-user-data,habit=inline,excludes=acme-user-data-file", options: map[string]any{"acme-user-data-file": "MARKER"},
			err: "the option acme-user-data-file: driver acme does not support this option together with the option acme-user-data, which"},
		"merged pair": {way: "flag=acme-user-data,habit=path,merges=acme-more", options: map[string]any{"acme-more": "kept"}, then: func(t *testing.T, v map[string]any) string {
			t.Helper()
			require.Equal(t, "kept", v["acme-more"])
			return ofFile(t, v)
		}},
		"a path where text is meant": {way: "flag=acme-user-data,habit=path", options: map[string]any{"acme-user-data": "/etc/MARKER"}, err: "must hold user data, not the path"},
		"nobody knows":               {err: "it is not known how driver acme takes user data"},
		"none":                       {way: "habit=none", then: func(*testing.T, map[string]any) string { return "" }},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := underWay(t, "acme")
			for _, flag := range []string{"acme-user-data", "acme-user-data-file", "acme-more"} {
				s.flags = append(s.flags, crdgen.Flag{Name: flag, Type: crdgen.String})
			}
			s.flags = append(s.flags, crdgen.Flag{Name: "acme-from-file", Type: crdgen.Bool})
			s.request.Options, s.bootstrap = c.options, []byte(script)
			var err error
			if c.way != "" {
				s.request.UserData, err = userdata.ParseWay(c.way)
				require.NoError(t, err)
			}
			s.values, err = flagvalues.Of(s.flags, s.request, nil, false)
			require.NoError(t, err)
			s.learnWay()
			require.NoError(t, s.withholdUserData())
			if s.way.Flag != "" {
				require.Empty(t, s.values[s.way.Flag], "there is no file yet")
			}
			for flag, want := range c.first {
				require.Equal(t, want, s.values[flag])
			}
			err = s.addUserData()
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.NotContains(t, err.Error(), "MARKER")
				return
			}
			require.NoError(t, err)
			got := c.then(t, s.values)
			if s.way.Flag == "" {
				require.False(t, s.takesUserData())
				return
			}
			require.Contains(t, got, "runcmd")
			require.Contains(t, got, `hostname: "pool-1"`)
			require.Equal(t, c.own, strings.Contains(got, "jq"))
			require.NotContains(t, s.redactor.String("x "+fmt.Sprint(s.values["acme-user-data"])+" x"), "H4sI", "it is in no log")
		})
	}
}

func unbase64(t *testing.T, values map[string]any) string {
	t.Helper()
	out, err := base64.StdEncoding.DecodeString(values["acme-user-data"].(string))
	require.NoError(t, err)
	return string(out)
}

func ofFile(t *testing.T, values map[string]any) string {
	t.Helper()
	out, err := os.ReadFile(values["acme-user-data"].(string))
	require.NoError(t, err)
	return string(out)
}

// TestAddKey: we bring the key wherever the driver takes one and the user has none of his own.
func TestAddKey(t *testing.T) {
	mine, err := sshkeys.Generate("mine")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		driver  string
		options map[string]any
		// where the key lies: "store" in the machine directory, "option" in a file that a flag names, or nowhere.
		where string
		err   string
	}{
		"digitalocean":                     {driver: "digitalocean", where: "store"},
		"digitalocean, by fingerprint":     {driver: "digitalocean", options: map[string]any{"digitalocean-ssh-key-fingerprint": "3b:16"}},
		"digitalocean, by path":            {driver: "digitalocean", options: map[string]any{"digitalocean-ssh-key-path": "/x"}},
		"amazonec2":                        {driver: "amazonec2", where: "option"},
		"amazonec2, a registered pair":     {driver: "amazonec2", options: map[string]any{"amazonec2-keypair-name": "mine"}},
		"amazonec2, the user's":            {driver: "amazonec2", options: map[string]any{"amazonec2-ssh-keypath": "/mine"}},
		"google":                           {driver: "google", where: "store"},
		"openstack":                        {driver: "openstack", where: "store"},
		"openstack, a registered pair":     {driver: "openstack", options: map[string]any{"openstack-keypair-name": "mine"}},
		"exoscale":                         {driver: "exoscale", where: "store"},
		"vmwarevsphere":                    {driver: "vmwarevsphere", where: "store"},
		"azure makes its own":              {driver: "azure"},
		"generic needs the server's":       {driver: "generic", err: "driver generic needs the SSH key of the existing server: set its option generic-ssh-key"},
		"generic, with the server's":       {driver: "generic", options: map[string]any{"generic-ssh-key": "/mine"}},
		"none has no server to log in to":  {driver: "none"},
		"softlayer, of which we know none": {driver: "softlayer"},
	} {
		t.Run(name, func(t *testing.T) {
			s := configured(t, c.driver, c.options)
			s.request.Files = map[string][]byte{"generic-ssh-key": mine.Private}
			err := s.checkKey()
			if err == nil {
				err = s.addKey()
			}
			if c.err != "" {
				f, ok := errors.AsType[*failure](err)
				require.True(t, ok)
				require.Equal(t, []string{"SSHKeyMissing", rkev1.ClassInvalid, c.err}, []string{f.reason, f.class, f.Error()})
				return
			}
			require.NoError(t, err)
			name := map[string]string{"store": s.dir.Path("id_rsa"), "option": filepath.Join(s.filesDir(), "amazonec2-ssh-keypath", "id_rsa")}[c.where]
			if c.where == "" {
				require.NoFileExists(t, s.dir.Path("id_rsa"))
				return
			}
			if c.where == "option" {
				require.Equal(t, name, s.values["amazonec2-ssh-keypath"])
			}
			// The key is new, ours alone, and known as a secret.
			private, err := os.ReadFile(filepath.Clean(name))
			require.NoError(t, err)
			public, err := os.ReadFile(filepath.Clean(name + ".pub"))
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(public), "ssh-ed25519 "))
			require.Contains(t, string(public), s.request.InstanceName)
			info, err := os.Stat(name)
			require.NoError(t, err)
			require.Equal(t, fs.FileMode(0o600), info.Mode())
			require.NotContains(t, s.redactor.String(string(private)), strings.Split(string(private), "\n")[1])
		})
	}
}

// TestAddUserData: the bootstrap data and the user's own become one file, which nobody else can read.
func TestAddUserData(t *testing.T) {
	const script, flag = "#!/bin/sh\necho MARKER-token\n", "digitalocean-userdata"
	for name, c := range map[string]struct {
		driver    string
		bootstrap string
		options   map[string]any
		files     map[string][]byte
		has       []string
		reason    string
		err       string
	}{
		"a script":                  {bootstrap: script, has: []string{"#cloud-config", `hostname: "pool-1"`}},
		"the user's own only":       {options: map[string]any{flag: "#cloud-config\npackages: [jq]\n"}, has: []string{"packages", "jq"}},
		"both":                      {bootstrap: script, options: map[string]any{flag: "#cloud-config\npackages: [jq]\n"}, has: []string{"packages", "jq", "runcmd"}},
		"from a Secret":             {bootstrap: script, files: map[string][]byte{flag: []byte("#cloud-config\npackages: [jq]\n")}, has: []string{"jq"}},
		"the Secret goes first":     {options: map[string]any{flag: "#cloud-config\na: MARKER-no\n"}, files: map[string][]byte{flag: []byte("#cloud-config\npackages: [jq]\n")}, has: []string{"jq"}},
		"a path instead of text":    {bootstrap: script, options: map[string]any{flag: "/etc/MARKER"}, reason: rkev1.SpecInvalidReason, err: "the option digitalocean-userdata: must hold user data, not the path of a file"},
		"what cannot be merged":     {bootstrap: script, options: map[string]any{flag: "#cloud-config\nruncmd: {MARKER: [}\n"}, reason: "UserDataInvalid"},
		"more than the cloud takes": {bootstrap: script, files: map[string][]byte{flag: []byte("#cloud-config\nx: " + strings.Repeat("y", 80<<10))}, reason: rkev1.UserDataTooLargeReason},
		"a driver without the flag": {driver: "rackspace", bootstrap: script},
	} {
		t.Run(name, func(t *testing.T) {
			if c.driver == "" {
				c.driver = "digitalocean"
			}
			s := configured(t, c.driver, c.options)
			s.bootstrap, s.request.Files = []byte(c.bootstrap), c.files
			err := s.addUserData()
			if c.reason != "" {
				f, ok := errors.AsType[*failure](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, []string{c.reason, rkev1.ClassInvalid}, []string{f.reason, f.class})
				require.Contains(t, f.Error(), c.err)
				require.NotContains(t, f.Error(), "MARKER")
				return
			}
			require.NoError(t, err)
			if len(c.has) == 0 {
				require.NoDirExists(t, s.filesDir())
				return
			}
			path, ok := s.values[flag].(string)
			require.True(t, ok)
			content, err := os.ReadFile(filepath.Clean(path))
			require.NoError(t, err)
			for _, want := range c.has {
				require.Contains(t, string(content), want)
			}
			require.NotContains(t, string(content), "MARKER-no")
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, fs.FileMode(0o600), info.Mode())
			require.Contains(t, s.handed, string(content), "it is not kept in the record")
		})
	}
}

func TestAddTags_only_where_the_driver_has_the_flag(t *testing.T) {
	s := configured(t, "digitalocean", map[string]any{"digitalocean-tags": "mine"})
	require.NoError(t, s.addNames())
	require.Equal(t, "mine", s.values["digitalocean-tags"], "there are none of ours")
	s.request.Tags = map[string]string{"drover-machine-uid": "u-1"}
	require.NoError(t, s.addNames())
	require.Equal(t, "drover-machine-uid:u-1,mine", s.values["digitalocean-tags"])
	for _, forged := range []string{"mine, Drover-Machine-UID:u-2", "drover-machine-uid"} {
		s := configured(t, "digitalocean", map[string]any{"digitalocean-tags": forged})
		s.request.Tags = map[string]string{"drover-machine-uid": "u-1"}
		require.ErrorContains(t, s.addNames(), "is reserved")
	}
	for _, name := range []string{"openstack", "none", "exoscale"} {
		s := configured(t, name, nil)
		s.request.Tags = map[string]string{"drover-machine-uid": "u-1"}
		before := len(s.values)
		require.NoError(t, s.addNames())
		require.Len(t, s.values, before)
		require.NotContains(t, s.values, "")
	}
}

// TestReadPlain: what a driver left in a directory that it could write to.
func TestReadPlain(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(outside, []byte("MARKER"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("1234567890"), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("file", filepath.Join(dir, "link within")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	require.NoError(t, os.Link(filepath.Join(dir, "file"), filepath.Join(dir, "second name")))
	for name, want := range map[string]string{
		"file": "", "second name": "", "link": "symbolic links", "link within": "symbolic links",
		"pipe": "pipe is not a regular file of at most 10 bytes", "folder": "folder is not a regular file of at most 10 bytes", "none": "no such file",
	} {
		content, err := readPlain(dir, name, 10)
		if want != "" {
			require.ErrorContains(t, err, want)
			require.Empty(t, content)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "1234567890", string(content))
	}
	_, err := readPlain(dir, "file", 9)
	require.EqualError(t, err, "file is not a regular file of at most 9 bytes")
}

// TestEarlierFailure: the words of the driver's own stage are taken only as far as they can be its own.
func TestEarlierFailure(t *testing.T) {
	type stageFailure struct{ reason, class, message string }
	unreadable := stageFailure{"DriverUnresponsive", rkev1.ClassInvalid, "the failure report of the driver's stage cannot be read"}
	for name, c := range map[string]struct {
		left    string
		fetched stageFailure
		flags   stageFailure
	}{
		"a good one": {`{"reason":"FlagsInvalid","class":"Invalid","message":"x"}`, stageFailure{"FlagsInvalid", "Invalid", "x"}, stageFailure{"FlagsInvalid", "Invalid", "x"}},
		"a reason of others": {`{"reason":"ServerMayExist","class":"Quota","message":"x"}`, stageFailure{"ServerMayExist", "Quota", "x"},
			stageFailure{"DriverUnresponsive", rkev1.ClassInvalid, "x"}},
		"no reason":     {`{"message":"MARKER"}`, unreadable, unreadable},
		"no JSON":       {`MARKER`, unreadable, unreadable},
		"another JSON":  {`["MARKER"]`, unreadable, unreadable},
		"nothing in it": {``, unreadable, unreadable},
		"too much":      {`{"reason":"x","message":"` + strings.Repeat("M", 70<<10) + `"}`, unreadable, unreadable},
		"no text":       {"{\"reason\":\"FlagsInvalid\",\"class\":\"Invalid\",\"message\":\"a\xffb\"}", stageFailure{"FlagsInvalid", "Invalid", "a�b"}, stageFailure{"FlagsInvalid", "Invalid", "a�b"}},
		"more than is told": {`{"reason":"NotADriver","class":"Invalid","message":"` + strings.Repeat("m", 5000) + `"}`,
			stageFailure{"NotADriver", "Invalid", strings.Repeat("m", 2048)}, stageFailure{"NotADriver", "Invalid", strings.Repeat("m", 2048)}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := underWay(t, "acme")
			s.options.FetchedDir, s.options.FlagsDir = t.TempDir(), t.TempDir()
			for dir, want := range map[string]stageFailure{s.options.FetchedDir: c.fetched, s.options.FlagsDir: c.flags} {
				require.NoError(t, s.earlierFailure(dir), "nothing was left")
				require.NoError(t, os.WriteFile(filepath.Join(dir, failureFile), []byte(c.left), 0o600))
				told, failed := errors.AsType[*failure](s.earlierFailure(dir))
				require.True(t, failed)
				require.Equal(t, want, stageFailure{told.reason, told.class, told.Error()})
			}
		})
	}
}

func TestStartFailure(t *testing.T) {
	for err, reason := range map[error]string{
		plugin.ErrUnresponsive:                                           "DriverUnresponsive",
		errors.Join(errors.New("x"), plugin.ErrUnresponsive):             "DriverUnresponsive",
		&os.PathError{Op: "fork/exec", Path: "/x", Err: syscall.ENOEXEC}: v3.NotADriverReason,
		errors.New("any other"):                                          v3.NotADriverReason,
	} {
		f, ok := errors.AsType[*failure](startFailure(err))
		require.True(t, ok)
		require.Equal(t, []string{reason, rkev1.ClassInvalid}, []string{f.reason, f.class}, "%v", err)
	}
}

// TestDriverEnv: the credential goes to the driver's process, and cannot replace where programs are looked for.
func TestDriverEnv(t *testing.T) {
	s, _ := underWay(t, "acme")
	s.options.Env = []string{"HTTPS_PROXY=http://proxy.example.com", "PATH=/ours"}
	s.request.CredentialEnv = map[string]string{"ACME_TOKEN": "t", "PATH": "/theirs", "HOME": "/theirs"}
	env := s.driverEnv("/drivers/docker-machine-driver-acme")
	require.Subset(t, env, []string{"HTTPS_PROXY=http://proxy.example.com", "ACME_TOKEN=t"})
	last := map[string]string{}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		last[name] = value
	}
	require.Equal(t, "/drivers:/usr/local/bin:/usr/bin:/bin", last["PATH"])
	require.Equal(t, s.options.Home, last["HOME"])
	require.Equal(t, []string{"HTTPS_PROXY=http://proxy.example.com", "PATH=/ours"}, s.options.Env)
}

// TestProtect: a log without the secrets that a script holds, and with the names of the machine that stand in it too.
func TestProtect(t *testing.T) {
	redactor := &redact.Redactor{}
	request := jobrunner.Request{InstanceName: "pool-1-web-7xk2p-9fz", Machine: jobrunner.MachineRef{Name: "pool-1-web-7xk2p-9fz-9b1c", ClusterName: "production-cluster-1"},
		CredentialEnv: map[string]string{"TOKEN": "hunter2", "REGION": "ams3-north"}, Public: []string{"REGION"}}
	protect(redactor, request, []byte("#!/bin/sh\nhostnamectl hostname pool-1-web-7xk2p-9fz\njoin production-cluster-1 --token=\"a1b2c3d4e5f6a7b8\"\n"))
	require.Equal(t, "+ join production-cluster-1 --token=[redacted] on pool-1-web-7xk2p-9fz with [redacted] in ams3-north",
		redactor.String("+ join production-cluster-1 --token=a1b2c3d4e5f6a7b8 on pool-1-web-7xk2p-9fz with hunter2 in ams3-north"))
}
