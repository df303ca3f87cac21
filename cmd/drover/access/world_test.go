package access_test

import (
	"encoding/json"
	"sync"
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
	server sshtest.OpenSSH
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
	w := &world{keys: keys, server: sshtest.StartOpenSSH(t, keys.Public)}
	data := map[string][]byte{
		state.SSHPrivateKeyKey: keys.Private, state.SSHPublicKeyKey: keys.Public,
		state.ServerKey:        serverDocument(t, w.server),
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

func serverDocument(t *testing.T, server sshtest.OpenSSH) []byte {
	t.Helper()
	document, err := json.Marshal(state.Server{InstanceID: "4711", SSHUser: server.User, SSHHost: server.Host, SSHPort: server.Port})
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
