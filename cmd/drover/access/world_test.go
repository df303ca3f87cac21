package access_test

import (
	"encoding/json"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/drover-project/drover/cmd/drover/access"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/sshkeys/sshtest"
	"github.com/drover-project/drover/state"
)

// world is machine web-1 with its state Secret, a server that lets its key in, and what the user was told.
type world struct {
	api    *inventory.API
	server *sshtest.Server
	keys   sshkeys.KeyPair
	login  access.Login

	mutex sync.Mutex
	notes []string
}

// newWorld starts the server. Its host key is recorded; change may change the state before it is stored.
func newWorld(t *testing.T, change func(data map[string][]byte)) *world {
	t.Helper()
	keys, err := sshkeys.Generate("web-1")
	require.NoError(t, err)
	w := &world{keys: keys, server: sshtest.Start(t, sshtest.Options{AuthorizedKey: keys.Public})}
	data := map[string][]byte{
		state.SSHPrivateKeyKey: keys.Private, state.SSHPublicKeyKey: keys.Public,
		state.ServerKey:        serverDocument(t, w.server.Host, w.server.Port),
		state.SSHKnownHostsKey: sshkeys.KnownHostsLine(w.server.Host, w.server.Port, w.server.HostKey),
	}
	if change != nil {
		change(data)
	}
	w.api = &inventory.API{Kube: fake.NewClientset(stateSecret(data))}
	w.login = access.Login{Command: "drover", Note: w.note}
	return w
}

func stateSecret(data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1-machine-state"}, Data: data}
}

func serverDocument(t *testing.T, host string, port int) []byte {
	t.Helper()
	document, err := json.Marshal(state.Server{InstanceID: "4711", SSHUser: "root", SSHHost: host, SSHPort: port})
	require.NoError(t, err)
	return document
}

func (w *world) note(text string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.notes = append(w.notes, text)
}

func (w *world) told() []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return append([]string(nil), w.notes...)
}

// state is the state Secret as it is now.
func (w *world) state(t *testing.T) *corev1.Secret {
	t.Helper()
	secret, err := w.api.Kube.CoreV1().Secrets("shop").Get(t.Context(), "web-1-machine-state", metav1.GetOptions{})
	require.NoError(t, err)
	return secret
}

var updateOptions = metav1.UpdateOptions{}

// door is an address in front of a server, which lets connections in only when it should.
type door struct {
	Host  string
	Port  int
	opens atomic.Int32
}

// reservePort finds a port at which nobody listens.
func reservePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	return portOf(t, listener)
}

func portOf(t *testing.T, listener net.Listener) int {
	t.Helper()
	address, ok := listener.Addr().(*net.TCPAddr)
	require.True(t, ok)
	return address.Port
}

// openDoor listens at a port (any when 0). Turn is called for each connection, counted from 1; unless it has dealt with the
// connection, that is handed on to the server.
func openDoor(t *testing.T, port int, server *sshtest.Server, turn func(number int32, connection net.Conn) (done bool)) *door {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	require.NoError(t, err)
	d := &door{Host: "127.0.0.1", Port: portOf(t, listener)}
	var open sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); open.Wait() })
	open.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			if turn == nil || !turn(d.opens.Add(1), connection) {
				open.Go(func() { handOn(connection, server) })
			}
		}
	})
	return d
}

func handOn(connection net.Conn, server *sshtest.Server) {
	defer func() { _ = connection.Close() }()
	inside, err := net.Dial("tcp", net.JoinHostPort(server.Host, strconv.Itoa(server.Port)))
	if err != nil {
		return
	}
	defer func() { _ = inside.Close() }()
	go func() { _, _ = io.Copy(inside, connection); _ = inside.Close() }()
	_, _ = io.Copy(connection, inside)
}
