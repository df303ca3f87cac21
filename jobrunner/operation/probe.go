package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/driver/mcnflags"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation/plugin"
	"github.com/drover-project/drover/state"
)

// Files that the stages of a probe leave for the next one.
const (
	fetchedFile = "fetched.json"
	flagsFile   = "flags.json"
	failureFile = "failure.json"

	maxNoteFile  = 64 << 10
	flagsTimeout = 45 * time.Second
)

// runProbe does one stage of a probe.
func (s *session) runProbe(ctx context.Context) int {
	var err error
	switch s.options.Stage {
	case jobrunner.StageFetch:
		err = s.leaveFailure(s.options.FetchedDir, s.fetch(ctx))
	case jobrunner.StageFlags:
		err = s.readFlags(ctx)
		if ranOutOfMemory(cgroups) {
			// The exit code must not be 0: the kubelet marks a container as OOMKilled if any
			// process in it was, and does not start the next one even after exit code 0, so that
			// the pod would hang.
			err = fail(rkev1.OutOfMemoryReason, rkev1.ClassInvalid, errors.New("the driver exceeded the memory limit of its container"))
			break
		}
		err = s.leaveFailure(s.options.FlagsDir, err)
	case jobrunner.StageReport:
		// The driver's report about itself is validated and becomes the result.
		if err := s.loadState(ctx); err != nil {
			s.log.printf("%v", err)
			return ExitFailed
		}
		probe, err := s.readReport()
		s.conclude(err)
		s.result.Probe = probe
		return s.finish(ctx)
	default:
		s.log.printf("a probe has no stage %q", s.options.Stage)
		return ExitUsage
	}
	if err != nil {
		s.log.printf("%v", err)
		return ExitFailed
	}
	return ExitSucceeded
}

// leaveFailure writes down why a stage failed. The stage still exits successfully, because the last
// stage reports the failure.
func (s *session) leaveFailure(dir string, err error) error {
	if err == nil {
		return nil
	}
	s.log.printf("%v", err)
	s.conclude(err)
	return leave(dir, failureFile, s.result)
}

func leave(dir, name string, note any) error {
	content, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
		return fmt.Errorf("leaving %s: %w", name, err)
	}
	return nil
}

// fetch gets the binary and puts it into the cache, before anything of it runs.
func (s *session) fetch(ctx context.Context) error {
	ref := s.request.Driver
	s.log.printf("downloading driver %s", ref.Name)
	binary, err := driver.Fetch(ctx, driver.FetchOptions{
		Name: ref.Name, URL: ref.URL, Checksum: ref.Checksum, SkipChecksum: ref.SkipChecksum, Dir: s.options.FetchedDir,
	})
	if err != nil {
		return binaryFailure(err)
	}
	core, err := s.options.Core()
	if err != nil {
		return fail(rkev1.DriverUnavailableReason, rkev1.ClassTransient, err)
	}
	if err := driver.Store(ctx, core.ConfigMaps(driver.CacheNamespace), binary); err != nil {
		return fail(rkev1.DriverUnavailableReason, rkev1.ClassTransient, err)
	}
	s.log.printf("driver %s has %d bytes, sha256 %s", ref.Name, binary.Size, binary.Digest)
	return leave(s.options.FetchedDir, fetchedFile, binary)
}

// readFlags runs the driver for the first time, without a token, and reads its flags.
func (s *session) readFlags(ctx context.Context) error {
	if s.earlierFailure(s.options.FetchedDir) != nil {
		return nil
	}
	binary, err := s.readFetched()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, flagsTimeout, fmt.Errorf("%w within %s", plugin.ErrUnresponsive, flagsTimeout))
	defer cancel()
	process, err := plugin.Start(ctx, plugin.Options{
		Name: s.request.Driver.Name, Path: binary.Path, Env: s.driverEnv(binary.Path), Dir: s.options.TempDir, Output: s.log,
	})
	if err != nil {
		return startFailure(err)
	}
	defer process.Kill()
	flags, err := process.Flags(ctx)
	if err != nil {
		return startFailure(fmt.Errorf("the driver started but did not return its flags: %w", err))
	}
	converted, err := mcnflags.Convert(flags)
	if err != nil {
		return fail(rkev1.FlagsInvalidReason, rkev1.ClassInvalid, err)
	}
	encoded, err := json.Marshal(converted)
	if err != nil {
		return fail(rkev1.FlagsInvalidReason, rkev1.ClassInvalid, err)
	}
	return leave(s.options.FlagsDir, flagsFile, json.RawMessage(encoded))
}

// startFailure keeps a file that cannot be run at all apart from a driver that does not answer.
func startFailure(err error) error {
	if errors.Is(err, plugin.ErrUnresponsive) {
		return fail(rkev1.DriverUnresponsiveReason, rkev1.ClassInvalid, err)
	}
	return fail(v3.NotADriverReason, rkev1.ClassInvalid, err)
}

func (s *session) readFetched() (driver.Binary, error) {
	var binary driver.Binary
	content, err := readPlain(s.options.FetchedDir, fetchedFile, maxNoteFile)
	if err != nil {
		return binary, fail(rkev1.DriverUnavailableReason, rkev1.ClassTransient, fmt.Errorf("reading the result of the fetch stage: %w", err))
	}
	if err := json.Unmarshal(content, &binary); err != nil {
		return binary, fail(rkev1.DriverUnavailableReason, rkev1.ClassTransient, errors.New("reading the result of the fetch stage: it is not JSON"))
	}
	return binary, nil
}

// earlierFailure reads the failure that a stage left. The second stage runs foreign code, so that
// its failure is reduced to the reasons that the stage itself reports.
func (s *session) earlierFailure(dir string) error {
	content, err := readPlain(dir, failureFile, maxNoteFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var told state.Result
	if err != nil || json.Unmarshal(content, &told) != nil || told.Reason == "" {
		return failf(rkev1.DriverUnresponsiveReason, rkev1.ClassInvalid, "the failure report of the driver's stage cannot be read")
	}
	if dir == s.options.FlagsDir {
		told.Class = rkev1.ClassInvalid
		if !slices.Contains([]string{rkev1.FlagsInvalidReason, v3.NotADriverReason}, told.Reason) {
			told.Reason = rkev1.DriverUnresponsiveReason
		}
	}
	return fail(told.Reason, told.Class, errors.New(clip(strings.ToValidUTF8(told.Message, "?"), maxMessage)))
}

func (s *session) readReport() (*state.ProbeReport, error) {
	for _, dir := range []string{s.options.FetchedDir, s.options.FlagsDir} {
		if err := s.earlierFailure(dir); err != nil {
			return nil, err
		}
	}
	binary, err := s.readFetched()
	if err != nil {
		return nil, err
	}
	content, err := readPlain(s.options.FlagsDir, flagsFile, crdgen.MaxFlagsBytes)
	if err != nil {
		return nil, fail(rkev1.DriverUnresponsiveReason, rkev1.ClassInvalid, errors.New("the driver's flags cannot be read"))
	}
	flags, err := crdgen.DecodeFlags(content)
	if err != nil {
		return nil, fail(rkev1.FlagsInvalidReason, rkev1.ClassInvalid, err)
	}
	encoded, err := json.Marshal(flags)
	if err != nil {
		return nil, fail(rkev1.FlagsInvalidReason, rkev1.ClassInvalid, err)
	}
	return &state.ProbeReport{Digest: binary.Digest, Flags: encoded}, nil
}

// readPlain reads only a regular file: a link could lead to our token, and a pipe would never end.
func readPlain(dir, name string, limit int64) ([]byte, error) {
	return readBounded(filepath.Join(dir, name), limit, syscall.O_NOFOLLOW|syscall.O_NONBLOCK)
}

// cgroups is the path of a container's own control groups.
const cgroups = "/sys/fs/cgroup"

// ranOutOfMemory reports whether the kernel ended a process of this container for the memory limit:
// the counter oom_kill in cgroup v2's memory.events or in cgroup v1's memory.oom_control (the
// kernel's admin-guide/cgroup-v2 and cgroup-v1/memory).
func ranOutOfMemory(root string) bool {
	for _, name := range []string{"memory.events", "memory/memory.oom_control"} {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(content)) {
			if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "oom_kill" {
				return fields[1] != "0"
			}
		}
	}
	return false
}
