package access_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/access"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/sshkeys"
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

// TestRead_asTheMachineSays: its user and port go before the driver's, and flags before both.
func TestRead_asTheMachineSays(t *testing.T) {
	w := newWorld(t, nil)
	m := machine("uid-1")
	m.Spec.Common.SSHContact = rkev1.SSHContact{User: "core", Port: 2222}
	data, err := access.Read(t.Context(), w.api, m, w.login)
	require.NoError(t, err)
	require.Equal(t, []any{"core", 2222}, []any{data.User, data.Port})
	w.login.User, w.login.Port = "me", 23
	data, err = access.Read(t.Context(), w.api, m, w.login)
	require.NoError(t, err)
	require.Equal(t, []any{"me", 23}, []any{data.User, data.Port})
	m.Spec.Common.SSHContact.JumpHost = "-oProxyCommand=x"
	_, err = access.Read(t.Context(), w.api, m, w.login)
	require.ErrorContains(t, err, "is not [USER@]HOST[:PORT]")
}

// TestRead_aJumpHostNeedsTheUsersYes: the machine's owner may be a tenant, and ssh offers the jump host the user's own keys.
func TestRead_aJumpHostNeedsTheUsersYes(t *testing.T) {
	w := newWorld(t, nil)
	m := machine("uid-1")
	m.Spec.Common.SSHContact.JumpHost = "me@bastion:23"
	_, err := access.Read(t.Context(), w.api, m, w.login)
	require.EqualError(t, err, "web-1 names the jump host me@bastion:23 (spec.common.sshContact.jumpHost), and your ssh would log in there with your own keys: "+
		"accept it with -J me@bastion:23, or connect without it with -J none", "without a terminal")

	answer, asked := false, ""
	w.login.Confirm = func(question string) (bool, error) { asked = question; return answer, nil }
	_, err = access.Read(t.Context(), w.api, m, w.login)
	require.EqualError(t, err, "the jump host me@bastion:23 was not accepted; -J none connects without it")
	require.Contains(t, asked, "web-1 names the jump host me@bastion:23")
	answer = true
	data, err := access.Read(t.Context(), w.api, m, w.login)
	require.NoError(t, err)
	require.Equal(t, "me@bastion:23", data.Jump)

	asked = ""
	for _, given := range []string{"another:23", "none"} {
		w.login.Jump = given
		data, err = access.Read(t.Context(), w.api, m, w.login)
		require.NoError(t, err)
		require.Equal(t, given, data.Jump)
	}
	require.Empty(t, asked, "-J is the user's own choice")
}

// TestCheckJump: a jump host can mean nothing else to ssh.
func TestCheckJump(t *testing.T) {
	for _, good := range []string{"bastion", "me@bastion.example:2222", "a,b@c:22,[2001:db8::1]:22", "none"} {
		require.NoError(t, access.CheckJump(good), good)
	}
	for _, bad := range []string{"", "-oProxyCommand=x", "a,-b", "a b", "a,", "$(x)", "me@", "host:port", "a;b", "a%h"} {
		require.Error(t, access.CheckJump(bad), bad)
	}
}
