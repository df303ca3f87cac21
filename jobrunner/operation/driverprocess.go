package operation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/driver/mcnflags"
	"github.com/drover-project/drover/jobrunner/operation/finder"
	"github.com/drover-project/drover/jobrunner/operation/flagvalues"
	"github.com/drover-project/drover/jobrunner/operation/plugin"
	"github.com/drover-project/drover/state"
)

const (
	quickCall = 30 * time.Second
	slowCall  = 3 * time.Minute
)

// restore restores the data of earlier attempts: the machine directory, the record, the journal,
// the keys.
func (s *session) restore() error {
	dir, err := s.dir.Restore(s.state.Data[state.ExtractedConfigKey])
	if err == nil {
		s.dir = dir
		s.record, err = dir.Record()
	}
	if err == nil {
		s.journal, err = state.ReadJournal(s.state.Data)
	}
	if err != nil && !errors.Is(err, state.ErrNoDocument) {
		return fail(rkev1.StateUnreadableReason, rkev1.ClassInvalid, err)
	}
	switch isComplete := s.record.Text(cmp.Or(s.profile.ID, "IPAddress")) != ""; {
	case s.journal.Phase != "":
	case isComplete:
		// A machine taken over from Rancher has a record and no journal. If that is complete, its
		// server is a node that lives: the bootstrap data must not run there again.
		s.advance(state.PhaseBootstrapped)
	case s.record != nil:
		s.advance(state.PhaseCreated)
	case s.request.MayExist:
		s.advance(state.PhaseLost)
	}
	s.privateKey = s.state.Data[state.SSHPrivateKeyKey]
	s.publicKey = s.state.Data[state.SSHPublicKeyKey]
	s.knownHosts = s.state.Data[state.SSHKnownHostsKey]
	s.redactor.Add(string(s.privateKey))
	return nil
}

// startDriver starts a new driver process and sets the values of its flags. tolerant leaves out
// invalid values, because they must not fail a removal.
func (s *session) startDriver(ctx context.Context, tolerant bool) error {
	s.stopDriver()
	path, err := s.binary(ctx)
	if err != nil {
		return err
	}
	s.driver, err = plugin.Start(ctx, plugin.Options{
		Name: s.request.Driver.Name, Path: path, Env: s.driverEnv(path), Dir: s.dir.Path(""), Output: s.log,
	})
	if err != nil {
		return s.driverFailure(rkev1.DriverUnavailableReason, err)
	}
	base, _ := json.Marshal(map[string]string{"MachineName": s.dir.Name, "StorePath": s.dir.Store}) // texts can be encoded
	ctx, cancel := context.WithTimeout(ctx, quickCall)
	defer cancel()
	if err := s.driver.Load(ctx, base); err != nil {
		return s.driverFailure(rkev1.DriverUnresponsiveReason, err)
	}
	flags, err := s.driver.Flags(ctx)
	if err != nil {
		return s.driverFailure(rkev1.DriverUnresponsiveReason, err)
	}
	if s.flags, err = mcnflags.Convert(flags); err != nil {
		return fail(rkev1.FlagsInvalidReason, rkev1.ClassInvalid, err)
	}
	s.learnWay()
	if s.values, err = s.valuesOf(s.flags, tolerant); err != nil {
		return err
	}
	if err := s.withholdUserData(); err != nil {
		return err
	}
	s.finder = finder.For(s.request.Driver.Name, s.placed())
	s.owner = finder.OwnerFor(s.request.Driver.Name, s.placed())
	return s.applyValues(ctx)
}

// valuesOf are the values of flags, whose files are written.
func (s *session) valuesOf(flags []crdgen.Flag, tolerant bool) (map[string]any, error) {
	files, err := flagvalues.WriteFiles(s.filesDir(), s.request.Files)
	if err != nil {
		return nil, err
	}
	values, err := flagvalues.Of(flags, s.request, files, tolerant)
	if err != nil {
		return nil, fail(rkev1.OptionsInvalidReason, rkev1.ClassInvalid, err)
	}
	return values, nil
}

// placed returns the values with the place where an earlier attempt may have made the server.
// Options that now name another place apply to the next server.
func (s *session) placed() map[string]any {
	if !mayHaveServer(s.journal.Phase) || s.record == nil {
		return s.values
	}
	values := maps.Clone(s.values)
	for field, flag := range s.profile.Place {
		if place, _ := s.record[field].(string); place != "" {
			values[flag] = place
		}
	}
	return values
}

func (s *session) applyValues(ctx context.Context) error {
	if err := s.driver.Configure(ctx, s.values); err != nil {
		if errors.Is(err, plugin.ErrUnresponsive) || cancelled(err) {
			return s.driverFailure(rkev1.OptionsInvalidReason, err)
		}
		return fail(rkev1.OptionsInvalidReason, rkev1.ClassInvalid, err)
	}
	record, err := s.readRecord(ctx)
	if err != nil {
		return err
	}
	s.fresh = record
	return nil
}

func (s *session) readRecord(ctx context.Context) (clouds.Record, error) {
	raw, err := s.driver.Record(ctx)
	if err != nil {
		return nil, s.driverFailure(rkev1.DriverUnresponsiveReason, err)
	}
	return clouds.DecodeRecord(raw)
}

// loadRecord makes the running driver mean the server of record.
func (s *session) loadRecord(ctx context.Context, record clouds.Record) error {
	raw, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encoding the driver's record: %w", err)
	}
	if err := s.driver.Load(ctx, raw); err != nil {
		return s.driverFailure(rkev1.StateUnreadableReason, err)
	}
	s.record = record
	return nil
}

// driverEnv gives the credential to the driver's process alone.
func (s *session) driverEnv(path string) []string {
	env := append([]string(nil), s.options.Env...)
	for name, value := range s.request.CredentialEnv {
		env = append(env, name+"="+value)
	}
	return append(env, "PATH="+filepath.Dir(path)+string(os.PathListSeparator)+"/usr/local/bin:/usr/bin:/bin", "HOME="+s.options.Home)
}

// binary returns the path of the driver: our own binary for a built-in driver. Other drivers come
// from the cache, where the probe stored them verified. If that fails, they are downloaded and must
// be the same binary; a removal usually needs no download.
func (s *session) binary(ctx context.Context) (string, error) {
	if s.request.Driver.Builtin {
		return s.options.Self, nil
	}
	if s.driverPath != "" {
		return s.driverPath, nil
	}
	ref := s.request.Driver
	dir := filepath.Join(s.options.TempDir, "drover", "drivers")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("creating a directory for the driver: %w", err)
	}
	found, err := driver.Binary{}, errors.New("its digest is unknown")
	if ref.Digest != "" {
		found, err = driver.Load(ctx, s.core.ConfigMaps(driver.CacheNamespace), ref.Name, ref.Digest, dir)
	}
	if err != nil && ref.URL != "" {
		s.log.printf("the driver is not available from the cache (%v), downloading it", err)
		found, err = driver.Fetch(ctx, driver.FetchOptions{
			Name: ref.Name, URL: ref.URL, Checksum: ref.Checksum, SkipChecksum: ref.SkipChecksum, Digest: ref.Digest, Dir: dir,
		})
	}
	if err != nil {
		return "", binaryFailure(err)
	}
	s.driverPath = found.Path
	return found.Path, nil
}

func binaryFailure(err error) error {
	reason, class := driver.ReasonOf(err), rkev1.ClassInvalid
	if reason == "" {
		reason, class = rkev1.DriverUnavailableReason, rkev1.ClassTransient
	}
	if driver.IsTemporary(err) {
		class = rkev1.ClassTransient
	}
	return fail(reason, class, err)
}

// credentials are the values of the credential that a record is renewed with: all but where its
// server is.
func (s *session) credentials() []string {
	values := make([]string, 0, len(s.request.CredentialEnv))
	for _, value := range s.request.CredentialEnv {
		isPlace := false
		for field := range s.profile.Place {
			isPlace = isPlace || s.fresh[field] == value
		}
		if !isPlace {
			values = append(values, value)
		}
	}
	return values
}
