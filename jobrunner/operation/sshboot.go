package operation

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"strings"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/userdata"
)

// runOnce is the program that runs a script once on a server; see there.
//
//go:embed runonce.sh
var runOnce string

const (
	// markerRoot holds a directory per machine that was bootstrapped over SSH.
	markerRoot = "/var/lib/drover/userdata"
	// hostsFile gets the server's own name.
	hostsFile = "/etc/hosts"

	statusNoRoot      = 124
	statusNotStarted  = 125
	statusInterrupted = 126
)

// bootstrapScript is the script to run. Without user data there is nobody on the server who would read cloud-config.
func (s *session) bootstrapScript() ([]byte, error) {
	data, err := userdata.Unzip(s.bootstrap)
	if err != nil {
		return nil, fail(reasonUserDataInvalid, rkev1.ClassInvalid, err)
	}
	if format := userdata.Detect(data); format != userdata.Script {
		return nil, failf(reasonBootstrapFormat, rkev1.ClassInvalid,
			"driver %s takes no user data, so the bootstrap data must be a shell script that begins with #!, but it is %s: use a bootstrap provider "+
				"that writes a script", s.request.Driver.Name, format)
	}
	return data, nil
}

// runOnServer uploads the script where only the user can read it, and has it run as root exactly once.
func (s *session) runOnServer(ctx context.Context, client *sshkeys.Client, script []byte) error {
	upload := ".drover-bootstrap-" + s.marker()
	if err := client.WriteFile(ctx, upload, script, 0o600); err != nil {
		return fail(reasonUnreachable, rkev1.ClassTransient, fmt.Errorf("uploading the bootstrap script: %w", err))
	}
	s.log.printf("running the bootstrap script on the server")
	line := "sh -s -- " + sshkeys.Quote(s.options.MarkerRoot+"/"+s.marker()) + " " + sshkeys.Quote(upload) + " " + sshkeys.Quote(s.request.InstanceName) +
		" " + sshkeys.Quote(s.options.HostsFile)
	status, err := client.Run(ctx, sshkeys.Command{Line: s.asRoot(line), Stdin: strings.NewReader(runOnce), Stdout: s.log, Stderr: s.log})
	if cancelled(err) {
		return err
	}
	if err != nil {
		return fail(reasonUnreachable, rkev1.ClassTransient, fmt.Errorf("running the bootstrap script: %w", err))
	}
	return bootstrapStatus(status)
}

// marker tells machines apart on a server that one machine after another takes over.
func (s *session) marker() string {
	return cmp.Or(wordOf(s.request.Machine.UID), s.request.InstanceName)
}

// wordOf keeps of a UID what means nothing to a shell or in a path.
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
		return failf(reasonBootstrapFailed, rkev1.ClassInvalid, "the SSH user may not become root on the server: it needs sudo without a password")
	case statusNotStarted:
		return failf(reasonBootstrapFailed, rkev1.ClassTransient, "the bootstrap script could not be started on the server; the log says why")
	case statusInterrupted:
		return failf(reasonInterrupted, rkev1.ClassInvalid,
			"the bootstrap script was interrupted on the server and is not run a second time: replace the machine, or finish by hand")
	}
	return failf(reasonBootstrapFailed, rkev1.ClassInvalid,
		"the bootstrap script ended with exit code %d and is not run a second time: the log shows its output", status)
}
