package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"

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
	// Jump are the hosts over which the server is reached, as in OpenSSH's ProxyJump. When it is
	// empty, the jump host that the machine names is used, after Confirm; "none" means no jump
	// host.
	Jump string
	// AcceptNewHostKey records the server's host key in the state Secret when none is recorded yet.
	AcceptNewHostKey bool
	// Command is how the user calls the CLI; messages name it.
	Command string
	// Note prints a message for the user; may be nil.
	Note func(string)
	// Confirm asks the user a question; nil without a terminal.
	Confirm func(question string) (bool, error)
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
	// The machine's current spec takes precedence over the values that the driver recorded when it
	// created the server.
	contact := m.Spec.Common.SSHContact
	access.User, access.Port = cmp.Or(login.User, contact.User, access.User), cmp.Or(login.Port, int(contact.Port), access.Port)
	access.Host = cmp.Or(login.Address, access.Host)
	access.Jump = cmp.Or(login.Jump, contact.JumpHost)
	if access.Jump == "" {
		return access, nil
	}
	if err := CheckJump(access.Jump); err != nil {
		return sshkeys.Access{}, err
	}
	if login.Jump == "" {
		err = login.confirmJump(m, access.Jump)
	}
	return access, err
}
