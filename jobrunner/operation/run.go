package operation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/bootstrap"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation/redact"
	"github.com/drover-project/drover/jobrunner/operation/statesecret"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/userdata"
)

// Exit codes of the pod's program.
const (
	ExitSucceeded = 0
	ExitFailed    = 1
	ExitUsage     = 2
	ExitCancelled = 3
)

const (
	maxMessage = 2 << 10
	maxNotes   = 16
)

// Options of Run.
type Options struct {
	// Operation to do, and for a probe its stage.
	Operation state.Operation
	Stage     string
	// RequestDir is the mount path of the request Secret; the default is jobrunner.RequestDir.
	RequestDir string
	// Home is the user's home directory, below which the machine directory is made.
	Home string
	// TempDir is for the files of options and for downloaded drivers.
	TempDir string
	// FetchedDir and FlagsDir are the directories that the stages of a probe share. The default is
	// the directories of package jobrunner.
	FetchedDir string
	FlagsDir   string
	// MarkerRoot is the directory on servers that marks a bootstrap over SSH;
	// /var/lib/drover/userdata when empty. Beside it is the claim of a host.
	MarkerRoot string
	// DeliveredDir is the directory on servers where user data leaves its mark;
	// userdata.DeliveredDir when empty.
	DeliveredDir string
	// HostsFile is the file on servers that gets their own name; /etc/hosts when empty.
	HostsFile string
	// LookupIP resolves a DNS name; the pod's resolver when nil.
	LookupIP func(ctx context.Context, host string) ([]netip.Addr, error)
	// Self is our own binary, which serves the built-in drivers.
	Self string
	// Env is the environment for the driver, beside the credential.
	Env []string
	// Core returns the Kubernetes clients. It is not called in containers without a token.
	Core func() (corev1client.CoreV1Interface, error)
	// Output takes the log, without secrets.
	Output io.Writer
}

// Run does one operation and returns the program's exit code. The state Secret's result has the
// outcome. If the state could not be written, the log has it; Kubernetes keeps the log's end.
func Run(ctx context.Context, options Options) int {
	options.RequestDir, options.FetchedDir = cmp.Or(options.RequestDir, jobrunner.RequestDir), cmp.Or(options.FetchedDir, jobrunner.FetchedDir)
	options.FlagsDir, options.MarkerRoot = cmp.Or(options.FlagsDir, jobrunner.FlagsDir), cmp.Or(options.MarkerRoot, bootstrap.MarkerRoot)
	options.DeliveredDir, options.HostsFile = cmp.Or(options.DeliveredDir, userdata.DeliveredDir), cmp.Or(options.HostsFile, hostsFile)
	if options.LookupIP == nil {
		options.LookupIP = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	ctx, stop := cancellable(ctx)
	defer stop()
	redactor := &redact.Redactor{}
	log := newLog(options.Output, redactor)
	defer func() { _ = log.Close() }()
	request, bootstrapData, err := readRequest(options.RequestDir)
	if err == nil && request.Operation != options.Operation {
		err = fmt.Errorf("the request has the operation %q, the command %q", request.Operation, options.Operation)
	}
	if err != nil {
		log.printf("%v", err)
		return ExitUsage
	}
	protect(redactor, request, bootstrapData)
	s := newSession(options, request, bootstrapData, redactor, log)
	if request.Operation == state.Probe {
		return s.runProbe(ctx)
	}
	return s.run(ctx)
}

// cancellable gives the end of ctx one cause, whatever signal or deadline it came from.
func cancellable(ctx context.Context) (context.Context, func()) {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(errCancelled) })
	return own, func() { stop(); cancel(nil) }
}

// protect makes all that is secret in a request known to the redactor. The names by which people
// know a machine are in its bootstrap data too, and must stay.
func protect(redactor *redact.Redactor, request jobrunner.Request, bootstrapData []byte) {
	machine := request.Machine
	redactor.Keep(request.InstanceName, machine.Name, machine.Namespace, machine.UID, machine.Kind, machine.ClusterName, request.StateSecret)
	redactor.Add(request.Secrets...)
	for name, value := range request.CredentialEnv {
		if !slices.Contains(request.Public, name) {
			redactor.Add(value)
		}
	}
	for _, content := range request.Files {
		redactor.Add(string(content))
	}
	redactor.Add(string(bootstrapData))
}

// run does a create or a remove and writes down how it went.
func (s *session) run(ctx context.Context) int {
	defer s.stopDriver()
	err := s.loadState(ctx)
	if err != nil {
		s.log.printf("%v", err)
		return ExitFailed
	}
	switch s.request.Operation {
	case state.Create:
		err = s.create(ctx)
	case state.Remove:
		err = s.remove(ctx)
	case state.Scan:
		err = s.scan(ctx)
	default: // a probe has no state and does not come here
		err = failf(rkev1.RequestInvalidReason, rkev1.ClassInvalid, "unknown operation %q", s.request.Operation)
	}
	s.stopDriver() // its last words belong into the log that is kept
	s.conclude(err)
	code := s.finish(ctx)
	if !s.result.ContactUntil.IsZero() && code == ExitSucceeded {
		s.contactServer(ctx)
	}
	return code
}

// loadState reads the state Secret of the machine, or the result Secret of a probe.
func (s *session) loadState(ctx context.Context) (err error) {
	if s.core, err = s.options.Core(); err != nil {
		return fmt.Errorf("connecting to Kubernetes: %w", err)
	}
	s.state = &statesecret.Secret{Client: s.core.Secrets(s.request.Namespace), Name: s.request.StateSecret, UID: s.request.StateUID}
	return s.state.Load(ctx)
}

// conclude makes the result from an operation's error.
func (s *session) conclude(err error) {
	r := &s.result
	r.Operation, r.Attempt, r.EndTime = s.request.Operation, s.request.Attempt, time.Now().UTC()
	r.Outcome, r.ServerMayExist = state.Succeeded, mayHaveServer(s.journal.Phase)
	r.Retry, r.Looked = &s.request.Retry, s.request.Looked
	if len(r.Notes) > maxNotes {
		r.Notes = r.Notes[:maxNotes]
	}
	if err == nil {
		return
	}
	r.Outcome, r.Reason, r.Class = state.Failed, rkev1.JobFailedReason, rkev1.ClassUnknown
	var known *failure
	switch {
	case cancelled(err):
		r.Outcome, r.Reason, r.Class = state.Cancelled, rkev1.CancelledReason, rkev1.ClassTransient
	case errors.Is(err, syscall.ENOSPC):
		// Whatever could not be written, that is the cause.
		r.Reason, r.Class = rkev1.DiskFullReason, rkev1.ClassTransient
	case errors.As(err, &known):
		r.Reason, r.Class = known.reason, known.class
	}
	r.Message = clip(s.redactor.String(err.Error()), maxMessage)
	if r.ServerMayExist {
		r.Recorded = s.redactor.String(s.recorded())
	}
}

// finish saves all there is to keep in one write.
func (s *session) finish(ctx context.Context) int {
	// A probe has no server.
	s.log.printf("%s: %s %s", strings.TrimSpace(string(s.request.Operation)+" "+s.request.InstanceName), s.result.Outcome, s.result.Message)
	if err := s.saveAll(ctx); err != nil {
		s.log.printf("%v", err)
		s.unsaved(err)
	}
	switch s.result.Outcome {
	case state.Succeeded:
		return ExitSucceeded
	case state.Cancelled:
		return ExitCancelled
	case state.Failed:
	}
	return ExitFailed
}

// unsaved turns the result into a failure because the state could not be saved.
func (s *session) unsaved(err error) {
	r := &s.result
	r.Outcome, r.Message = state.Failed, clip(s.redactor.String(err.Error()), maxMessage)
	r.Reason, r.Class = unsavedReason(err)
}

func unsavedReason(err error) (reason, class string) {
	if errors.Is(err, statesecret.ErrTooLarge) {
		return rkev1.StateTooLargeReason, rkev1.ClassInvalid
	}
	return rkev1.StateUnwritableReason, rkev1.ClassTransient
}

// saveAll leaves out data if the state is too large: first the log, then the machine directory,
// whose earlier version stays. Without the machine directory the operation has failed, but its
// facts about the server are kept.
func (s *session) saveAll(ctx context.Context) error {
	changes := map[string][]byte{state.LogKey: s.log.ring.bytes()}
	var err error
	if changes[state.ResultKey], err = json.Marshal(s.result); err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	if err := s.addProgress(changes); err != nil {
		return err
	}
	if s.server != nil {
		if changes[state.ServerKey], err = json.Marshal(s.server); err != nil {
			return fmt.Errorf("encoding the server: %w", err)
		}
	}
	for key, value := range map[string][]byte{
		state.SSHPrivateKeyKey: s.privateKey, state.SSHPublicKeyKey: s.publicKey, state.SSHKnownHostsKey: s.knownHosts,
	} {
		if len(value) > 0 {
			changes[key] = value
		}
	}
	err = s.state.Save(ctx, changes)
	if !errors.Is(err, statesecret.ErrTooLarge) {
		return err
	}
	changes[state.LogKey] = nil
	if err = s.state.Save(ctx, changes); !errors.Is(err, statesecret.ErrTooLarge) {
		return err
	}
	s.unsaved(err)
	delete(changes, state.ExtractedConfigKey)
	if changes[state.ResultKey], err = json.Marshal(s.result); err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	return s.state.Save(ctx, changes)
}

func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "")
}

const maxRequestBytes = 2 << 20

var (
	driverName   = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$`)
	instanceName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,252}$`)
)

// readRequest reads the request and the bootstrap data from the mounted request Secret.
func readRequest(dir string) (jobrunner.Request, []byte, error) {
	var request jobrunner.Request
	content, err := readBounded(filepath.Join(dir, jobrunner.RequestKey), maxRequestBytes, 0)
	if err != nil {
		return request, nil, fmt.Errorf("reading the request: %w", err)
	}
	if err := json.Unmarshal(content, &request); err != nil {
		// The decoder's error can quote the input.
		return request, nil, errors.New("reading the request: it is not the JSON of a request")
	}
	if !driverName.MatchString(request.Driver.Name) {
		return request, nil, errors.New("reading the request: the driver's name is not usable")
	}
	makes := request.Operation == state.Create || request.Operation == state.Remove
	if makes && !instanceName.MatchString(request.InstanceName) {
		// It becomes the name of a directory.
		return request, nil, errors.New("reading the request: the server's name is not usable")
	}
	if !request.HasBootstrap {
		return request, nil, nil
	}
	data, err := readBounded(filepath.Join(dir, jobrunner.BootstrapKey), maxRequestBytes, 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return request, nil, fmt.Errorf("reading the bootstrap data: %w", err)
	}
	return request, data, nil
}

func readBounded(name string, limit int64, flags int) ([]byte, error) {
	file, err := os.OpenFile(filepath.Clean(name), os.O_RDONLY|flags, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	notPlain := fmt.Errorf("%s is not a regular file of at most %d bytes", filepath.Base(name), limit)
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, notPlain
	}
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if int64(len(content)) > limit {
		return nil, notPlain
	}
	return content, err
}
