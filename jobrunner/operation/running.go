package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	serverstate "github.com/rancher/machine/libmachine/state"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner/operation/finder"
	"github.com/drover-project/drover/jobrunner/operation/plugin"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

const (
	runningTimeout = 10 * time.Minute
	maxPause       = 3 * time.Second
	// maxLookups is how many times in a row the cloud may fail to return a server's state.
	maxLookups = 6
)

// makesNothing reports whether the driver has no server at all, like the drivers none and noop.
func (s *session) makesNothing() bool { return s.profile.NoServer && s.profile.NeedsKey == "" }

// awaitRunning waits until the server runs, and starts it once if it does not.
func (s *session) awaitRunning(ctx context.Context) error {
	if s.makesNothing() || s.profile.NoServer && (s.request.SSHContact.JumpHost != "" || s.request.SSHContact.Port != 0) {
		return nil // the driver asks the host at the address and port that it knows, and from here
	}
	w := &runningWait{session: s, limit: runningTimeout}
	look := w.notRunning
	if s.profile.NoServer {
		// The host was there before: it need not start, only answer.
		w.limit, look = s.sshTimeout(bootstrapTimeout), w.unheard
	}
	deadline := time.Now().Add(w.limit)
	for wait := pollInterval; ; wait = min(2*wait, maxPause) {
		current, err := s.driver.State(ctx)
		if err == nil && current == serverstate.Running {
			return nil
		}
		if err != nil {
			err = w.failed(ctx, err)
		} else {
			w.failures = 0
			err = look(ctx, current, time.Now().After(deadline))
		}
		if err != nil {
			return err
		}
		if err := finder.Pause(ctx, wait); err != nil {
			return err
		}
	}
}

// runningWait is a wait for a server to run.
type runningWait struct {
	session  *session
	limit    time.Duration
	started  bool
	failures int
	// last is the driver's last answer.
	last serverstate.State
}

// failed takes an error of the driver; nil means to ask again.
func (w *runningWait) failed(ctx context.Context, err error) error {
	s := w.session
	w.failures++
	switch {
	case cancelled(err):
		return err
	case s.isGone(err) && !s.profile.NoServer:
		s.sweep(ctx)
		s.advance(state.PhaseGone)
		return failf(rkev1.ServerGoneReason, rkev1.ClassTransient, "the server disappeared while the Job waited for it")
	case w.failures >= maxLookups || errors.Is(err, plugin.ErrUnresponsive):
		return s.driverFailure(rkev1.LookupFailedReason, err)
	}
	return nil
}

// notRunning starts a stopped server once; nil means to ask again.
func (w *runningWait) notRunning(ctx context.Context, current serverstate.State, late bool) error {
	s := w.session
	switch {
	case late:
		return failf(rkev1.ServerNotRunningReason, rkev1.ClassTransient, "the server did not start within %s: the driver reports the state %s", w.limit, cmp.Or(current.String(), "in no state that it knows"))
	case current != w.last && current != serverstate.None:
		s.log.printf("waiting for the server to run: it is %s", current)
	}
	w.last = current
	if w.started || !slices.Contains([]serverstate.State{serverstate.Stopped, serverstate.Paused, serverstate.Saved}, current) {
		return nil
	}
	w.started = true
	s.log.printf("starting the server, which is %s", current)
	if err := s.do(ctx, plugin.StartServer); err != nil {
		s.log.printf("starting the server: %v", err)
	}
	return nil
}

// unheard is notRunning for a driver that creates no server and cannot know whether its host runs:
// generic returns Stopped for a host that accepts no connection at its SSH port.
func (w *runningWait) unheard(ctx context.Context, current serverstate.State, late bool) error {
	s := w.session
	login, err := s.driver.Login(ctx)
	if err != nil && !isDriverError(err) {
		return s.driverFailure(rkev1.DriverUnresponsiveReason, err)
	}
	says := fmt.Sprintf("the host does not respond at %s port %d", login.Host, login.Port)
	switch {
	case late:
		return failf(rkev1.SSHUnreachableReason, rkev1.ClassTransient, "%s: it accepted no connection within %s. Check whether it runs, whether address and port are "+
			"correct, and whether a firewall allows the management cluster's pods", says, w.limit)
	case current != w.last && current != serverstate.None:
		s.log.printf("waiting for the server to run: %s", says)
	}
	w.last = current
	return nil
}

// describe collects the facts about the server: record, keys, addresses.
func (s *session) describe(ctx context.Context) error {
	login, err := s.login(ctx)
	if err != nil {
		return err
	}
	if login.Host == "" && s.finder != nil {
		if login, err = s.completeRecord(ctx); err != nil {
			return err
		}
	}
	if login.Host == "" && !s.profile.NoServer && !s.reached(state.PhaseCreated) {
		s.log.printf("removing the server: the driver never finished it and knows no address of it")
		if err := s.do(ctx, plugin.Remove); err != nil {
			return s.driverFailure(rkev1.RemoveFailedReason, err)
		}
		s.sweep(ctx)
		if there, _ := s.look(ctx, s.naming() == byName); there == saysGone {
			s.record = nil
			s.advance(state.PhaseGone)
		}
		return failf(rkev1.ServerIncompleteReason, rkev1.ClassTransient, "an earlier attempt left an unfinished server without address; it was removed")
	}
	if !s.reached(state.PhaseCreated) {
		s.advance(state.PhaseCreated)
	}
	s.facts = clouds.Facts{
		Record: s.record, Hostname: s.request.InstanceName,
		ProviderID: s.request.ProviderID, Template: s.request.ProviderIDTemplate,
		SSHHost: login.Host, SSHUser: login.User, SSHPort: login.Port,
	}
	server := s.profile.Server(s.facts)
	s.server = &server
	s.takeKeys(login.KeyPath)
	return nil
}

// driverLogin returns the driver's login, with the machine's own user and port if they are set.
func (s *session) driverLogin(ctx context.Context) (plugin.Login, error) {
	login, err := s.driver.Login(ctx)
	contact := s.request.SSHContact
	login.User, login.Port = cmp.Or(contact.User, login.User), cmp.Or(int(contact.Port), login.Port)
	return login, err
}

// login reads the record again and asks for the login. If the driver does not know the host, login
// returns no error.
func (s *session) login(ctx context.Context) (plugin.Login, error) {
	login, err := s.driverLogin(ctx)
	if err != nil && !isDriverError(err) {
		return login, s.driverFailure(rkev1.DriverUnresponsiveReason, err)
	}
	record, err := s.readRecord(ctx)
	if err != nil {
		return login, err
	}
	s.record = record
	return login, nil
}

// completeRecord takes the addresses from the cloud when the driver never came to write them down.
func (s *session) completeRecord(ctx context.Context) (plugin.Login, error) {
	found, err := s.find(ctx, false)
	if err != nil {
		return plugin.Login{}, err
	}
	for _, server := range found {
		if server.ID != s.profile.ServerID(s.record) {
			continue
		}
		maps.Copy(s.record, server.Record)
		if err := s.loadRecord(ctx, s.record); err != nil {
			return plugin.Login{}, err
		}
	}
	return s.login(ctx)
}

func (s *session) takeKeys(path string) {
	if s.makesNothing() {
		return
	}
	keys, err := s.dir.Keys(path)
	if errors.Is(err, sshkeys.ErrNoKey) {
		s.note("the driver keeps no SSH private key: logging in needs a key of yours")
		return
	}
	if err != nil {
		s.note("the server's SSH key cannot be used: %v", err)
		return
	}
	s.redactor.Add(string(keys.Private))
	s.privateKey, s.publicKey = keys.Private, keys.Public
}
