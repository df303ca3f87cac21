package access_test

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/access"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/sshkeys/sshtest"
	"github.com/drover-project/drover/state"
)

// readCase is one state Secret and what it gives.
type readCase struct {
	data  map[string]string
	login access.Login
	want  sshkeys.Access
	err   string
}

func readCases() map[string]readCase {
	const server = `{"sshUser":"ubuntu","sshHost":"198.18.0.11","sshPort":2222}`
	full := map[string]string{"server.json": server, "ssh-privatekey": "P", "ssh-publickey": "p", "ssh-knownhosts": "k"}
	keyOnly := map[string]string{"ssh-privatekey": "P", "ssh-publickey": "p", "ssh-knownhosts": "k"}
	give := func(user, host string, port int) sshkeys.Access {
		return sshkeys.Access{User: user, Host: host, Port: port, PrivateKey: []byte("P"), PublicKey: []byte("p"), KnownHosts: []byte("k")}
	}
	return map[string]readCase{
		"all of it":       {data: full, want: give("ubuntu", "198.18.0.11", 2222)},
		"another user":    {data: full, login: access.Login{User: "root"}, want: give("root", "198.18.0.11", 2222)},
		"another port":    {data: full, login: access.Login{Port: 22}, want: give("ubuntu", "198.18.0.11", 22)},
		"another address": {data: full, login: access.Login{Address: "bastion.example"}, want: give("ubuntu", "bastion.example", 2222)},
		"defaults": {data: map[string]string{"server.json": `{"sshHost":"198.18.0.11"}`, "ssh-privatekey": "P", "ssh-publickey": "p", "ssh-knownhosts": "k"},
			want: give("root", "198.18.0.11", 22)},
		"no address, one given": {data: keyOnly, login: access.Login{Address: "198.18.0.9", User: "alice", Port: 23}, want: give("alice", "198.18.0.9", 23)},
		"no address": {data: keyOnly,
			err: "web-1 cannot be logged in to (phase Creating): the state names no address of the server; see 'drover why web-1 -n shop'"},
		"no key": {data: map[string]string{"server.json": server},
			err: "web-1 cannot be logged in to (phase Creating): the state holds no SSH private key; see 'drover why web-1 -n shop'"},
		"nothing yet": {data: map[string]string{"credential.json": "{}"},
			err: "web-1 cannot be logged in to (phase Creating): the state holds no SSH private key; see 'drover why web-1 -n shop'"},
		"not JSON": {data: map[string]string{"server.json": "MARKER", "ssh-privatekey": "P"},
			err: "web-1 cannot be logged in to (phase Creating): reading server.json: invalid character 'M' looking for beginning of value; see 'drover why web-1 -n shop'"},
	}
}

func TestRead(t *testing.T) {
	for name, c := range readCases() {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{}
			for key, value := range c.data {
				data[key] = []byte(value)
			}
			m := machine("1")
			m.Status.Phase = rkev1.PhaseCreating
			c.login.Command = "drover"
			got, err := access.Read(t.Context(), &inventory.API{Kube: fake.NewClientset(stateSecret(data))}, m, c.login)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestReadWithoutState(t *testing.T) {
	m := machine("1")
	_, err := access.Read(t.Context(), &inventory.API{Kube: fake.NewClientset()}, m, access.Login{Command: "kubectl drover"})
	require.EqualError(t, err, "web-1 has no server yet (phase Pending): there is no Secret web-1-machine-state; see 'kubectl drover why web-1 -n shop'")

	m.Status.Phase, m.Spec.ProviderID = "Failed", "digitalocean://1"
	_, err = access.Read(t.Context(), &inventory.API{Kube: fake.NewClientset()}, m, access.Login{Command: "drover"})
	require.EqualError(t, err, "web-1 cannot be logged in to: it has a server, but the Secret web-1-machine-state, which has its key, is not there; restore it from a backup. See 'drover why web-1 -n shop'")

	foreign := stateSecret(map[string][]byte{"ssh-privatekey": []byte("P")})
	foreign.OwnerReferences = []metav1.OwnerReference{{APIVersion: "rke-machine.cattle.io/v1", Kind: "AzureMachine", Name: "web-1", UID: "2", Controller: new(true)}}
	_, err = access.Read(t.Context(), &inventory.API{Kube: fake.NewClientset(foreign)}, m, access.Login{Address: "198.18.0.9"})
	require.EqualError(t, err, "the Secret web-1-machine-state is not this machine's: it belongs to AzureMachine web-1")
}

func TestDialLearnsTheHostKeyOnce(t *testing.T) {
	w := newWorld(t, func(data map[string][]byte) { delete(data, state.SSHKnownHostsKey) })
	_, err := access.Dial(t.Context(), w.api, machine("1"), w.login)
	require.EqualError(t, err, "logging in to "+address(w)+" as root: ssh: handshake failed: no host key of the server is recorded: "+
		"whoever answers at its address cannot be told from web-1. If you trust the network between you and it, "+
		"use 'drover ssh web-1 -n shop --accept-new-host-key' once: the key is then recorded in Secret web-1-machine-state and verified ever after")
	require.Empty(t, w.state(t).Data[state.SSHKnownHostsKey], "nobody has said yes")

	w.login.AcceptNewHostKey = true
	client, err := access.Dial(t.Context(), w.api, machine("1"), w.login)
	require.NoError(t, err)
	require.NoError(t, client.Close())
	recorded := sshkeys.KnownHostsLine(w.server.Host, w.server.Port, w.server.HostKey)
	require.Equal(t, string(recorded), string(w.state(t).Data[state.SSHKnownHostsKey]))
	require.Equal(t, []string{"recorded the host key of web-1 in Secret web-1-machine-state"}, w.told())

	client, err = access.Dial(t.Context(), w.api, machine("1"), w.login)
	require.NoError(t, err)
	require.NoError(t, client.Close())
	require.Len(t, w.told(), 1, "a key that is recorded is not recorded again")
}

func TestDialWithoutAnyoneToTell(t *testing.T) {
	w := newWorld(t, func(data map[string][]byte) { delete(data, state.SSHKnownHostsKey) })
	w.login.AcceptNewHostKey, w.login.Note = true, nil
	client, err := access.Dial(t.Context(), w.api, machine("1"), w.login)
	require.NoError(t, err)
	require.NoError(t, client.Close())
}

func address(w *world) string { return net.JoinHostPort(w.server.Host, strconv.Itoa(w.server.Port)) }

// TestDialRefusesAnotherServer: also who says yes to new keys gets no login to a server whose key is another one.
func TestDialRefusesAnotherServer(t *testing.T) {
	other := sshtest.Start(t, sshtest.Options{})
	for _, accept := range []bool{false, true} {
		w := newWorld(t, func(data map[string][]byte) { data[state.ServerKey] = serverDocument(t, other.Host, other.Port) })
		before := w.state(t)
		w.login.AcceptNewHostKey = accept
		_, err := access.Dial(t.Context(), w.api, machine("1"), w.login)
		require.ErrorIs(t, err, sshkeys.ErrHostKeyChanged)
		require.ErrorContains(t, err, "another server answers at its address, or its key was made anew. If you know why, remove the recorded key "+
			`(kubectl -n shop patch secret web-1-machine-state --type json -p '[{"op":"remove","path":"/data/ssh-knownhosts"}]') `+
			"and use 'drover ssh web-1 -n shop --accept-new-host-key'")
		require.Equal(t, before, w.state(t))
		require.Empty(t, other.Commands())
		require.Empty(t, w.told())
	}
}

func TestDialThatTheServerDoesNotAccept(t *testing.T) {
	w := newWorld(t, nil)
	other, err := sshkeys.Generate("other")
	require.NoError(t, err)
	secret := w.state(t)
	secret.Data[state.SSHPrivateKeyKey] = other.Private
	w.api.Kube = fake.NewClientset(secret)
	for kind, says := range map[string]string{
		"AzureMachine": "somebody took the key of Secret web-1-machine-state off the server: its cloud's console is the other way in",
		"GenericMachine": "the host does not know the key " + sshkeys.Fingerprint(other.Public) + " of Secret web-1-machine-state any more: " +
			"docs/drivers.md tells how that gets another key (Another key for a host)",
	} {
		m := machine("1")
		m.Kind.Name = kind
		_, err = access.Dial(t.Context(), w.api, m, w.login)
		require.ErrorIs(t, err, sshkeys.ErrNotAccepted)
		require.EqualError(t, err, "logging in to "+address(w)+" as root: ssh: handshake failed: ssh: unable to authenticate, attempted methods [none publickey], "+
			"no supported methods remain; the user may be another one (-l), or "+says)
	}
	require.Empty(t, w.told(), "a refused key is not tried again")
}

func TestDialThatNobodyAnswers(t *testing.T) {
	w := newWorld(t, nil)
	silent := openDoor(t, 0, w.server, func(int32, net.Conn) bool { return true })
	secret := w.state(t)
	secret.Data[state.ServerKey] = serverDocument(t, silent.Host, silent.Port)
	w.api.Kube = fake.NewClientset(secret)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := access.Dial(ctx, w.api, machine("1"), w.login)
	require.EqualError(t, err, "logging in to 127.0.0.1:"+strconv.Itoa(silent.Port)+" as root: context deadline exceeded; a firewall may be in the way, "+
		"or the server has another address you can reach (--address, see 'drover get web-1 -n shop -o json')")
	require.Empty(t, w.told(), "a server that is silent has heard us")
}

// TestDialTellsNoSecret: a key that cannot be read must not be shown for it.
func TestDialTellsNoSecret(t *testing.T) {
	w := newWorld(t, func(data map[string][]byte) { data[state.SSHPrivateKeyKey] = []byte("MARKER-private") })
	_, err := access.Dial(t.Context(), w.api, machine("1"), w.login)
	require.EqualError(t, err, "reading the SSH private key: it is no OpenSSH or PEM key without passphrase")
}
