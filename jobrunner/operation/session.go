package operation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation/finder"
	"github.com/drover-project/drover/jobrunner/operation/machinedir"
	"github.com/drover-project/drover/jobrunner/operation/plugin"
	"github.com/drover-project/drover/jobrunner/operation/redact"
	"github.com/drover-project/drover/jobrunner/operation/statesecret"
	"github.com/drover-project/drover/state"
)

// session is one operation under way.
type session struct {
	options   Options
	request   jobrunner.Request
	bootstrap []byte
	redactor  *redact.Redactor
	log       *journalLog
	core      corev1client.CoreV1Interface
	state     *statesecret.Secret
	profile   clouds.Cloud
	dir       machinedir.Directory

	// driver is the running driver; flags and values are its configuration; fresh is its record
	// right after it was configured.
	driver     *plugin.Process
	driverPath string
	flags      []crdgen.Flag
	values     map[string]any
	// way is how the driver takes user data; wayErr why that is not known.
	way    clouds.UserData
	wayErr error
	// marked is true if this attempt's user data leaves a mark on the server.
	marked bool
	fresh  clouds.Record
	finder finder.Finder
	owner  finder.Owner
	// foundOurs reports whether the finder found a server with this machine's tag.
	foundOurs bool

	// record is the driver's last known record. Only the journal's phase decides whether a server
	// may exist (see next).
	record  clouds.Record
	journal state.Journal
	// secrets are values besides the credential that are not kept in the record, such as user data.
	secrets []string
	// handed is the user data as the driver got it, which is kept nowhere in the record.
	handed []string

	// reported is when the session last saved whether the cloud limits the driver's requests.
	reported time.Time

	// facts are what server was described from.
	facts      clouds.Facts
	server     *state.Server
	privateKey []byte
	publicKey  []byte
	knownHosts []byte
	result     state.Result
}

func newSession(options Options, request jobrunner.Request, data []byte, redactor *redact.Redactor, log *journalLog) *session {
	s := &session{
		options: options, request: request, bootstrap: data, redactor: redactor, log: log,
		profile: clouds.Of(request.Driver.Name),
		dir:     machinedir.New(options.Home, request.InstanceName),
	}
	log.throttling.classify = s.classify
	s.result.StartTime = time.Now().UTC()
	for _, value := range request.CredentialEnv {
		s.secrets = append(s.secrets, value)
	}
	return s
}

func (s *session) note(format string, args ...any) {
	text := s.redactor.String(fmt.Sprintf(format, args...))
	s.log.printf("note: %s", text)
	s.result.Notes = append(s.result.Notes, clip(text, maxMessage))
}

// advance writes down in memory how far the operation came; the next save keeps it.
func (s *session) advance(phase state.Phase) {
	// An attempt that requested a server and now has one has made it.
	asked := s.journal.Phase == state.PhaseIntent && s.journal.Operation == state.Create && s.journal.Attempt == s.request.Attempt
	if asked && (phase == state.PhaseRecorded || phase == state.PhaseCreated) && !s.profile.NoServer {
		s.result.Made = true
	}
	s.journal = state.Journal{
		Operation: s.request.Operation, Attempt: s.request.Attempt, Phase: phase,
		InstanceName: s.request.InstanceName, Driver: s.request.Driver.Name, Time: time.Now().UTC(),
	}
}

// reached reports whether the journal has reached that phase, or a later one of a create.
func (s *session) reached(phase state.Phase) bool {
	order := map[state.Phase]int{
		state.PhaseIntent: 1, state.PhaseRecorded: 2, state.PhaseCreated: 3, state.PhaseBootstrapped: 4,
	}
	return order[s.journal.Phase] >= order[phase]
}

// addProgress adds the journal and the machine directory.
func (s *session) addProgress(changes map[string][]byte) error {
	if s.journal.Phase != "" {
		journal, err := json.Marshal(s.journal)
		if err != nil {
			return fmt.Errorf("encoding the journal: %w", err)
		}
		changes[state.JournalKey] = journal
	}
	if s.record == nil || s.journal.Phase == "" {
		return nil
	}
	config, err := s.dir.Config(s.request.Driver.Name, s.record, s.secrets, s.handed...)
	if err != nil {
		return err
	}
	archive, skipped, err := s.dir.Archive(config)
	if err != nil {
		return err
	}
	for _, name := range skipped {
		s.log.printf("the file %s of the machine directory is too large to be kept", name)
	}
	changes[state.ExtractedConfigKey] = archive
	return nil
}

// saveProgress keeps the journal and the machine directory while the operation goes on.
func (s *session) saveProgress(ctx context.Context) error {
	changes := map[string][]byte{}
	if err := s.addProgress(changes); err != nil {
		return err
	}
	return s.state.Save(ctx, changes)
}

func (s *session) filesDir() string { return filepath.Join(s.options.TempDir, "drover", "options") }

func (s *session) stopDriver() {
	if s.driver != nil {
		s.driver.Kill()
		s.driver = nil
	}
}

// journalLog is the operation's log: every line without secrets, with its time, to the pod's output
// and to a ring that is kept in the state.
type journalLog struct {
	*redact.Writer
	ring       *ring
	throttling *throttling
}

func newLog(out io.Writer, redactor *redact.Redactor) *journalLog {
	kept := &ring{limit: state.MaxLogBytes}
	watched := &throttling{after: throttledAfter, every: saveInterval}
	lines := io.MultiWriter(&stamp{out: io.MultiWriter(out, kept)}, watched)
	return &journalLog{Writer: redact.NewWriter(lines, redactor), ring: kept, throttling: watched}
}

// printf writes a line of our own.
func (l *journalLog) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(l, format+"\n", args...)
}

// stamp puts the time before each line; redact.Writer writes line by line.
type stamp struct{ out io.Writer }

// Write implements io.Writer.
func (s *stamp) Write(line []byte) (int, error) {
	if _, err := fmt.Fprintf(s.out, "%s %s", time.Now().UTC().Format("15:04:05.000"), line); err != nil {
		return 0, err
	}
	return len(line), nil
}

// ring keeps the end of the written text, starting at the beginning of a line.
type ring struct {
	mutex sync.Mutex
	limit int
	data  []byte
}

// Write implements io.Writer.
func (r *ring) Write(p []byte) (int, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.data = append(r.data, p...)
	if excess := len(r.data) - r.limit; excess > 0 {
		whole := r.data[excess-1] == '\n'
		r.data = r.data[excess:]
		if end := bytes.IndexByte(r.data, '\n'); end >= 0 && !whole {
			r.data = r.data[end+1:]
		}
	}
	return len(p), nil
}

func (r *ring) bytes() []byte {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return bytes.Clone(r.data)
}

// failure is an error with its reason and class for the result.
type failure struct {
	error

	reason, class string
}

// Unwrap gives the cause.
func (f *failure) Unwrap() error { return f.error }

func fail(reason, class string, err error) error {
	return &failure{err, reason, class}
}

func failf(reason, class, format string, args ...any) error {
	return fail(reason, class, fmt.Errorf(format, args...))
}

// driverFailure gives an error of a driver its class.
func (s *session) driverFailure(reason string, err error) error {
	if cancelled(err) {
		return err
	}
	if errors.Is(err, plugin.ErrUnresponsive) {
		return fail(rkev1.DriverUnresponsiveReason, rkev1.ClassUnknown, err)
	}
	return fail(reason, s.classify(err.Error()), err)
}

// errCancelled is the cause of an operation's context when its pod is stopped.
var errCancelled = errors.New("the pod was stopped before it was done (deleted, drained or preempted), and it saved its state")

func cancelled(err error) bool {
	return errors.Is(err, errCancelled) || errors.Is(err, context.Canceled)
}
