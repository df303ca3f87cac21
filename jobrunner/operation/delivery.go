package operation

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

// proofTimeout bounds the wait for cloud-init on a server that one can log in to. cloud-init writes files before it lets sshd
// start (its units' order), so most are asked once.
const proofTimeout = 2 * time.Minute

// awaitsDelivery reports whether bootstrap data went to the server as user data, and it is not known yet whether it arrived.
func (s *session) awaitsDelivery() bool {
	return len(s.bootstrap) > 0 && s.takesUserData() && s.result.Delivery == nil
}

func (s *session) delivered(proven bool, message string) {
	s.result.Delivery = &state.Delivery{Proven: &proven, Message: message}
}

func (s *session) unproven(why string) {
	if s.awaitsDelivery() {
		s.result.Delivery = &state.Delivery{Message: "it was not verified that the bootstrap data reached the server: " + why}
	}
}

// proveDelivery looks on the server for the files that our user data makes. A driver that drops the data, or sends something
// else, tells nobody: cloud-init says done either way.
//
//	marker.ran there ──▶ proven    marker there ──▶ proven, its commands run still
//	cloud-init has ended without ──▶ not delivered    no cloud-init, or it still runs after proofTimeout ──▶ not verified
//
// Without a mark in what this attempt handed over, for the server is an earlier one's or the format has no place for it, nothing
// follows from its absence.
func (s *session) proveDelivery(ctx context.Context, client *sshkeys.Client) error {
	if !s.awaitsDelivery() {
		return nil
	}
	deadline, ended := time.Now().Add(proofTimeout), false
	for wait := pollInterval; ; wait = min(2*wait, maxPause) {
		told, err := s.askCloudInit(ctx, client)
		switch {
		case cancelled(err):
			return err
		case err != nil:
			s.unproven("the server did not answer")
			return nil
		case told == "ran":
			s.delivered(true, "cloud-init on the server has applied the bootstrap data")
			return nil
		case told == "arrived":
			s.delivered(true, "cloud-init on the server has the bootstrap data, and runs its commands")
			return nil
		case told == "absent":
			s.unproven("there is no cloud-init on it")
			return nil
		case ended && !s.marked:
			s.unproven("cloud-init has ended without our mark, which this server's data may not have had")
			return nil
		case ended:
			s.delivered(false, fmt.Sprintf("cloud-init on the server has ended (%s) without the bootstrap data: the driver or the cloud did not hand it over", told))
			return nil
		}
		// Asked once more, for it may have ended between the two questions.
		ended = told == "done" || told == "error" || told == "disabled"
		if !ended && time.Now().After(deadline) {
			s.unproven("cloud-init on it has not ended")
			return nil
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

// deliveryMark is the same in all attempts, and after a machine was restored.
func (s *session) deliveryMark() string {
	if uid := s.request.Tags[jobrunner.TagMachineUID]; uid != "" {
		return wordOf(uid)
	}
	return s.marker()
}

// askCloudInit returns ran, arrived, absent, or the status that cloud-init tells. It needs no rights on the server.
func (s *session) askCloudInit(ctx context.Context, client *sshkeys.Client) (string, error) {
	file := sshkeys.Quote(s.options.DeliveredDir + "/" + s.deliveryMark())
	var out bytes.Buffer
	_, err := client.Run(ctx, sshkeys.Command{Stdout: &limited{to: &out, left: maxStatus}, Stderr: s.log, Line: fmt.Sprintf(
		"if test -e %[1]s.ran; then echo ran; elif test -e %[1]s; then echo arrived; elif command -v cloud-init >/dev/null 2>&1; then "+
			"cloud-init status 2>/dev/null | sed -n 's/^status: *//p'; else echo absent; fi", file)})
	word, _, _ := strings.Cut(strings.TrimSpace(out.String()), "\n")
	for _, known := range []string{"ran", "arrived", "absent", "done", "error", "disabled"} {
		if word == known {
			return word, err
		}
	}
	return "running", err
}

const maxStatus = 1 << 10

// limited takes the first bytes of what a server says and drops the rest.
type limited struct {
	to   *bytes.Buffer
	left int
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	_, _ = l.to.Write(p[:n])
	return len(p), nil
}
