package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

// Login says how to log in to a machine's server. Empty fields are taken from the state Secret.
type Login struct {
	User    string
	Port    int
	Address string
	// Jump are the hosts over which the server is reached, as in OpenSSH's ProxyJump; the machine's own jump host when empty, and
	// none when "none".
	Jump string
	// AcceptNewHostKey records the server's host key in the state Secret when none is recorded yet.
	AcceptNewHostKey bool
	// Command is how the CLI is called, for advice.
	Command string
	// Note is told what the user should know; may be nil.
	Note func(string)
	// Dialer makes connections; the network, or OpenSSH's ssh over the jump hosts, when nil.
	Dialer sshkeys.Dialer
	// Progress counts what goes over the connection; may be nil.
	Progress *Progress
	// ErrOut is told what an ssh over jump hosts says.
	ErrOut io.Writer
	// Patience is how long a server is waited for that does not serve SSH yet; 20 seconds when 0.
	Patience time.Duration
}

// Read takes a machine's access data out of its state Secret.
func Read(ctx context.Context, api *inventory.API, m *facts.Machine, login Login) (sshkeys.Access, error) {
	secret, err := api.StateSecret(ctx, m)
	if err != nil {
		return sshkeys.Access{}, err
	}
	if secret == nil && (m.Address() != "" || m.Spec.ProviderID != "") {
		return sshkeys.Access{}, fmt.Errorf("%s cannot be logged in to: it has a server, but the Secret %s, which has its key, is not there; restore it from a backup. See '%s why %s -n %s'",
			m.Name, jobrunner.StateSecretName(m.Name), login.Command, m.Name, m.Namespace)
	}
	if secret == nil {
		return sshkeys.Access{}, fmt.Errorf("%s has no server yet (phase %s): there is no Secret %s; see '%s why %s -n %s'",
			m.Name, m.Phase(), jobrunner.StateSecretName(m.Name), login.Command, m.Name, m.Namespace)
	}
	kept, err := login.awaitHostKey(ctx, api, m, state.Read(secret))
	if err != nil {
		return sshkeys.Access{}, err
	}
	access, err := sshkeys.AccessFrom(kept)
	if errors.Is(err, sshkeys.ErrNoAddress) && login.Address != "" {
		access, err = sshkeys.Access{PrivateKey: kept.PrivateKey, PublicKey: kept.PublicKey, KnownHosts: kept.KnownHosts}, nil
	}
	if err != nil {
		return sshkeys.Access{}, fmt.Errorf("%s cannot be logged in to (phase %s): %w; see '%s why %s -n %s'", m.Name, m.Phase(), err, login.Command, m.Name, m.Namespace)
	}
	// What the machine says now goes before what its driver said when the server was made.
	contact := m.Spec.Common.SSHContact
	access.User, access.Port = cmp.Or(login.User, contact.User, access.User), cmp.Or(login.Port, int(contact.Port), access.Port)
	access.Host, access.Jump = cmp.Or(login.Address, access.Host), cmp.Or(login.Jump, contact.JumpHost)
	if access.Jump == noJump {
		access.Jump = ""
	}
	if access.Jump != "" {
		return access, Jump{Hosts: access.Jump}.Check()
	}
	return access, nil
}

// noJump is what OpenSSH takes for no jump host.
const noJump = "none"

// Dial logs in to a machine's server. Its host key must be the recorded one.
func Dial(ctx context.Context, api *inventory.API, m *facts.Machine, login Login) (*sshkeys.Client, error) {
	access, err := Read(ctx, api, m, login)
	if err != nil {
		return nil, err
	}
	var learned []byte
	options := sshkeys.Options{Dialer: login.Dialer}
	if options.Dialer == nil && access.Jump != "" {
		options.Dialer = Jump{Hosts: access.Jump, ErrOut: login.ErrOut}
	}
	if login.Progress != nil {
		options.Dialer = countedDialer{Dialer: cmp.Or[sshkeys.Dialer](options.Dialer, &net.Dialer{}), bytes: &login.Progress.bytes}
	}
	if login.Jump == "" && access.Jump != "" {
		login.note("%s is reached over %s, as its spec.common.sshContact.jumpHost says (-J)", m.Name, access.Jump)
	}
	if login.AcceptNewHostKey {
		options.Learn = func(line []byte) error { learned = line; return nil }
	}
	client, err := login.connect(ctx, m.Name, access, options)
	if err != nil {
		return nil, advise(err, m, access, login)
	}
	if len(learned) == 0 {
		return client, nil
	}
	if err := api.RecordHostKey(ctx, m, learned); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	login.note("recorded the host key of %s in Secret %s", m.Name, jobrunner.StateSecretName(m.Name))
	return client, nil
}

// advise adds what to do to an error of logging in.
func advise(err error, m *facts.Machine, access sshkeys.Access, login Login) error {
	this := fmt.Sprintf("%s -n %s", m.Name, m.Namespace)
	accept := fmt.Sprintf("'%s ssh %s --accept-new-host-key'", login.Command, this)
	secret := jobrunner.StateSecretName(m.Name)
	var network *net.OpError
	switch {
	case errors.Is(err, sshkeys.ErrHostKeyUnknown):
		return fmt.Errorf("%w: whoever answers at its address cannot be told from %s. If you trust the network between you and it, "+
			"use %s once: the key is then recorded in Secret %s and verified ever after", err, m.Name, accept, secret)
	case errors.Is(err, sshkeys.ErrHostKeyChanged):
		return fmt.Errorf("%w: another server answers at its address, or its key was made anew. If you know why, remove the recorded key (%s -n %s patch secret %s --type json "+
			"-p '[{\"op\":\"remove\",\"path\":\"/data/%s\"}]') and use %s",
			err, facts.Kubectl(login.Command), m.Namespace, secret, state.SSHKnownHostsKey, accept)
	case errors.Is(err, sshkeys.ErrNotAccepted) && clouds.Of(facts.DriverName(m.Kind.Name, nil)).TakesHosts():
		public, _ := sshkeys.PublicOf(access.PrivateKey, "") // it was parsed to log in
		return fmt.Errorf("%w; the user may be another one (-l), or the host does not know the key %s of Secret %s any more: docs/drivers.md tells how that gets another key "+
			"(Another key for a host)", err, sshkeys.Fingerprint(public), secret)
	case errors.Is(err, sshkeys.ErrNotAccepted):
		return fmt.Errorf("%w; the user may be another one (-l), or somebody took the key of Secret %s off the server: its cloud's console is the other way in", err, secret)
	case errors.Is(err, sshkeys.ErrNotServing) && access.Jump != "":
		return fmt.Errorf("%w; see above what the ssh to the jump host %s says, and whether it may forward connections to the server's address (--address)", err, access.Jump)
	case errors.Is(err, sshkeys.ErrNotServing):
		return fmt.Errorf("%w; its SSH daemon may be down, or listen on another port (-p) or address (--address, see '%s get %s -o json'): "+
			"look at its console in the cloud, and at '%s why %s'", err, login.Command, this, login.Command, this)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network):
		return fmt.Errorf("%w; a firewall may be in the way, or the server has another address you can reach (--address, see '%s get %s -o json')", err, login.Command, this)
	}
	return err
}
