package operation

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/bootstrap"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/userdata"
)

// runOnce is the program that runs a script once on a server; see there.
//
//go:embed runonce.sh
var runOnce string

const (
	// hostsFile gets the server's own name.
	hostsFile = "/etc/hosts"

	statusInUse       = 123
	statusNoRoot      = 124
	statusNotStarted  = 125
	statusInterrupted = 126

	// cleanTimeout is for the pods of a node to end, and for its data to be deleted.
	cleanTimeout = 15 * time.Minute
)

// bootstrapScript returns the script to run. Without user data no cloud-init on the server reads a
// cloud-config.
func (s *session) bootstrapScript() ([]byte, error) {
	data, err := userdata.Unzip(s.bootstrap)
	if err != nil {
		return nil, fail(rkev1.UserDataInvalidReason, rkev1.ClassInvalid, err)
	}
	if format := userdata.Detect(data); format != userdata.Script {
		return nil, failf(rkev1.BootstrapFormatUnsupportedReason, rkev1.ClassInvalid,
			"driver %s takes no user data, so the bootstrap data must be a shell script that begins with #!, but it is %s: use a bootstrap provider "+
				"that writes a script", s.request.Driver.Name, format)
	}
	return data, nil
}

// runOnServer uploads the script where only the user can read it, and has it run as root exactly
// once.
func (s *session) runOnServer(ctx context.Context, client *sshkeys.Client, script []byte) error {
	upload := ".drover-bootstrap-" + s.marker()
	if err := client.WriteFile(ctx, upload, script, 0o600); err != nil {
		return fail(rkev1.SSHUnreachableReason, rkev1.ClassTransient, fmt.Errorf("uploading the bootstrap script: %w", err))
	}
	s.log.printf("running the bootstrap script on the server")
	hostname := s.request.InstanceName
	if s.profile.TakesHosts() {
		hostname = "" // an existing host keeps its own
	}
	status, err := s.runProgram(ctx, client, "running the bootstrap script", runOnce, s.log,
		s.options.MarkerRoot+"/"+s.marker(), upload, hostname, s.options.HostsFile)
	if err != nil {
		return err
	}
	return bootstrapStatus(status)
}

// runProgram runs one of Drover's own programs on the server as root, with arguments, and returns
// its exit code.
func (s *session) runProgram(ctx context.Context, client *sshkeys.Client, doing, program string, out io.Writer, args ...string) (int, error) {
	line := []string{"sh -s --"}
	for _, arg := range args {
		line = append(line, sshkeys.Quote(arg))
	}
	status, err := client.Run(ctx, sshkeys.Command{Line: s.asRoot(strings.Join(line, " ")), Stdin: strings.NewReader(program), Stdout: out, Stderr: s.log})
	if err != nil && !cancelled(err) {
		err = fail(rkev1.SSHUnreachableReason, rkev1.ClassTransient, fmt.Errorf("%s: %w", doing, err))
	}
	return status, err
}

// marker distinguishes machines on a server that several machines use one after another.
func (s *session) marker() string {
	return cmp.Or(wordOf(s.request.Machine.UID), s.request.InstanceName)
}

// wordOf keeps the characters of a UID that have no meaning to a shell or in a path.
func wordOf(uid string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return -1
	}, uid)
}

func bootstrapStatus(status int) error {
	switch status {
	case 0:
		return nil
	case statusNoRoot:
		return failf(rkev1.BootstrapFailedReason, rkev1.ClassInvalid, "the SSH user cannot become root on the server: it needs sudo without a password")
	case statusNotStarted:
		return failf(rkev1.BootstrapFailedReason, rkev1.ClassTransient, "the bootstrap script could not be started on the server; see the log for the cause")
	case statusInterrupted:
		return failf(rkev1.BootstrapInterruptedReason, rkev1.ClassInvalid,
			"the bootstrap script was interrupted on the server and is not run a second time: replace the machine, or finish by hand")
	}
	return failf(rkev1.BootstrapFailedReason, rkev1.ClassInvalid,
		"the bootstrap script ended with exit code %d and is not run a second time: the log shows its output", status)
}

// claimScript takes a host; see there.
//
//go:embed claim.sh
var claimScript string

var (
	// claimants are the characters of UIDs, namespaces and names, as a claim has them.
	claimants = regexp.MustCompile(`^[A-Za-z0-9./ -]*$`)
	// inUsePaths are the characters of the paths that claim.sh prints for a host that is in use.
	inUsePaths = regexp.MustCompile(`^/[A-Za-z0-9._@:/\\-]+$`)
)

// claimHost marks the host as this machine's before it runs any command there. Removing the machine
// releases the host, so that a claimed host is a temporary error. An unknown driver may take hosts,
// too, and the effect of its Remove on them is unknown. The claim then stays, and the next machine
// gets the host only after a user has checked it.
func (s *session) claimHost(ctx context.Context, client *sshkeys.Client) error {
	if !s.profile.TakesHosts() && s.profile.Known() {
		return nil
	}
	m := s.request.Machine
	// From here on the host may have data of this machine, which its removal must know.
	if len(s.state.Data[state.SSHKnownHostsKey]) == 0 {
		if err := s.state.Save(ctx, map[string][]byte{state.SSHKnownHostsKey: s.knownHosts}); err != nil {
			return fail(rkev1.StateUnwritableReason, rkev1.ClassTransient, err)
		}
	}
	file := bootstrap.NewClean("", s.options.MarkerRoot).Claim // the file on a host with its machine: /var/lib/drover/claim
	var claim bytes.Buffer                                     // that the host has then
	status, err := s.runProgram(ctx, client, "claiming the host", claimScript, &limited{to: &claim, left: maxStatus},
		file, s.deliveryMark(), m.Namespace+"/"+m.Name, strings.TrimSpace(m.ClusterName+" "+m.ClusterUID))
	if err != nil {
		return err
	}
	if status == statusInUse {
		return s.hostInUse(claim.String())
	}
	if err := bootstrapStatus(status); err != nil {
		return err
	}
	if claim.Len() == 0 {
		return failf(rkev1.HostTakenReason, rkev1.ClassTransient, "%s on the host %s is empty or not a file: a root user of the host replaced it. Check the host, and remove it",
			file, s.server.SSHHost)
	}
	uid, rest, _ := strings.Cut(strings.ToValidUTF8(claim.String(), "?"), "\n")
	if uid == s.deliveryMark() {
		return nil
	}
	name, cluster, _ := strings.Cut(rest, "\n")
	if !claimants.MatchString(uid + name + strings.TrimSpace(cluster)) {
		uid, name, cluster = "unknown", "unknown", "unknown" // do not quote foreign text in our message
	}
	return failf(rkev1.HostTakenReason, rkev1.ClassTransient, "the host %s belongs to machine %q of Cluster %q (UID %q): delete that machine, or set another host for this one. "+
		"If that machine no longer exists, clean the host by hand, as docs/drivers.md describes; remove the file %s last", s.server.SSHHost, name, strings.TrimSpace(cluster), uid, file)
}

// maxInUse limits the paths in the message of a host that is in use.
const maxInUse = 6

// hostInUse is the failure for a host that has a Kubernetes which no machine brought; output has a
// line for each path that shows it.
func (s *session) hostInUse(output string) error {
	paths := strings.Fields(output)
	if len(paths) > maxInUse {
		paths = append(paths[:maxInUse], "and more")
	}
	for i, path := range paths {
		if path != "and more" && !inUsePaths.MatchString(path) {
			paths[i] = "a file with an unusual name" // a root user of the host chose it
		}
	}
	return failf(rkev1.HostInUseReason, rkev1.ClassInvalid, "the host %s already has a Kubernetes that this machine did not install: %s. Drover changed nothing there. "+
		"Set another host for this machine. Or, if you do not need that Kubernetes and its data any more, remove it with its own script "+
		"(k3s-uninstall.sh, k3s-agent-uninstall.sh, rke2-uninstall.sh or kubeadm reset), remove the rest of these paths, and retry", s.server.SSHHost, strings.Join(paths, ", "))
}

// cleanHost removes this machine's files from the host and releases it for another machine. A host
// that cannot be cleaned keeps its machine until the user repairs the host or gives it up. A host
// that never accepted the login has nothing to clean.
func (s *session) cleanHost(ctx context.Context) error {
	if !s.profile.TakesHosts() {
		return nil
	}
	wasThere := len(s.knownHosts) > 0
	err := s.cleanOverSSH(ctx)
	if err == nil || cancelled(err) {
		return err
	}
	if !wasThere {
		s.note("the host was not checked: %v. No command was ever run there for this machine", err)
		return nil
	}
	if known, ok := errors.AsType[*failure](err); ok {
		return known
	}
	host := cmp.Or(s.record.Text("IPAddress"), s.request.InstanceName)
	return failf(rkev1.HostNotCleanedReason, rkev1.ClassTransient, "the host %s still has this machine's files, because it was not cleaned: %w", host, err)
}

func (s *session) cleanOverSSH(ctx context.Context) error {
	script, err := bootstrap.CleanScript(bootstrap.NewClean(s.deliveryMark(), s.options.MarkerRoot))
	if err != nil {
		return err
	}
	login, err := s.driverLogin(ctx)
	if err != nil {
		return err
	}
	if len(s.privateKey) == 0 {
		s.takeKeys(login.KeyPath) // the keys of an interrupted create
	}
	s.server = &state.Server{SSHHost: login.Host, SSHUser: login.User, SSHPort: login.Port}
	defer func() { s.server = nil }() // it is less than the state has
	client, err := s.tryKeys(ctx)
	if err != nil {
		return fmt.Errorf("logging in: %w", err)
	}
	defer func() { _ = client.Close() }()
	s.log.printf("cleaning the host")
	ctx, cancel := context.WithTimeoutCause(ctx, cleanTimeout, fmt.Errorf("it took longer than %s", cleanTimeout))
	defer cancel()
	var said bytes.Buffer
	status, err := client.Run(ctx, sshkeys.Command{Line: s.asRoot("sh -s"), Stdin: bytes.NewReader(script), Stdout: io.MultiWriter(s.log, &lastLine{to: &said}), Stderr: s.log})
	if err != nil {
		return err
	}
	why := strings.TrimPrefix(strings.ToValidUTF8(said.String(), "?"), "drover: ")
	switch status {
	case 0:
		s.note("%s", why)
		return nil
	case statusNoRoot, bootstrap.CleanRefused:
		noRoot := map[int]string{statusNoRoot: "the SSH user cannot become root there: it needs sudo without a password"}
		why = cmp.Or(noRoot[status], why)
		host := cmp.Or(s.record.Text("IPAddress"), s.request.InstanceName)
		return failf(rkev1.HostNotCleanedReason, rkev1.ClassInvalid, "the host %s was not cleaned: %s", host, why)
	}
	return fmt.Errorf("%s (exit code %d)", cmp.Or(why, "the script printed nothing"), status)
}

// lastLine keeps the beginning of the last line that is not empty.
type lastLine struct {
	to    *bytes.Buffer
	ended bool
}

// Write implements io.Writer.
func (l *lastLine) Write(p []byte) (int, error) {
	for _, b := range p {
		if b == '\n' {
			l.ended = true
			continue
		}
		if l.ended {
			l.to.Reset()
			l.ended = false
		}
		if l.to.Len() < maxStatus {
			l.to.WriteByte(b)
		}
	}
	return len(p), nil
}

// asRoot is a command line for the SSH user that runs another one as root.
func (s *session) asRoot(line string) string {
	if s.access().User == "root" {
		return line
	}
	return fmt.Sprintf("sudo -n true || exit %d; sudo -n %s", statusNoRoot, line)
}
