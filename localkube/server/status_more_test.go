package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/controlplane"
	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/pki"
)

// holderVariable makes the test binary a process that holds a data directory
// until it is told to stop.
const holderVariable = "LOCALKUBE_TEST_HOLDER"

func TestMain(m *testing.M) {
	path := os.Getenv(holderVariable)
	if path == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	dir, err := datadir.Open(path)
	if err == nil {
		_, err = dir.Lock()
	}
	_, _ = fmt.Println(err)
	<-ctx.Done()
}

// heldElsewhere makes another process hold a directory.
func heldElsewhere(t *testing.T, dir datadir.Dir) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderVariable+"="+dir.Root())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	said := make([]byte, 6)
	_, err = out.Read(said)
	require.NoError(t, err)
	require.Equal(t, "<nil>\n", string(said))
	return cmd
}

func TestDown_stops_who_holds_the_directory(t *testing.T) {
	dir := newDir(t)
	holder := heldElsewhere(t, dir)
	done := make(chan error, 1)
	go func() { done <- holder.Wait() }()
	var log bytes.Buffer
	require.NoError(t, Down(t.Context(), dir.Root(), &log))
	require.NoError(t, <-done, "it was asked, not killed")
	require.Regexp(t, fmt.Sprintf(`^localkube +\d+\.\d\ds  sending terminated to process %d\nlocalkube +\d+\.\d\ds  %s is down\n$`, holder.Process.Pid, dir.Root()), log.String())
}

func TestDown_touches_no_stranger(t *testing.T) {
	dir := newDir(t)
	holder := heldElsewhere(t, dir)
	victim := exec.Command("sleep", "600")
	require.NoError(t, victim.Start())
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	for _, said := range []string{strconv.Itoa(victim.Process.Pid), "0", "", "-1", "no number"} {
		require.NoError(t, os.WriteFile(dir.Path("lock"), []byte(said+"\n"), 0o600))
		pid, _ := strconv.Atoi(said)
		var log bytes.Buffer
		require.EqualError(t, Down(t.Context(), dir.Root(), &log), fmt.Sprintf(
			"stopping what runs on %s: its lock names no process that could be seen from here (%d): stop it where it runs", dir.Root(), max(0, pid)))
		require.Empty(t, log.String())
	}
	require.NoError(t, victim.Process.Signal(syscall.Signal(0)), "a number may be another process's in another container")
	require.NoError(t, holder.Process.Signal(syscall.SIGTERM))
	require.NoError(t, holder.Wait())
}

func TestDown_that_is_given_up(t *testing.T) {
	dir := newDir(t)
	holder := heldElsewhere(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Down(ctx, dir.Root(), &bytes.Buffer{}), context.Canceled)
	_ = holder.Wait() // it was asked to
}

func TestStatus_golden(t *testing.T) {
	var text strings.Builder
	for _, status := range []Status{
		{DataDir: "/d", Reason: "the data directory does not exist"},
		{DataDir: "/d", Running: true, PID: 7, Reason: "the server is starting"},
		{DataDir: "/d", Running: true, Reason: "the server is starting"},
		{DataDir: "/d", Running: true, PID: 7, Kind: "server", Reason: "probing https://x/readyz: 500", URL: "https://x", Kubeconfig: "/d/kubeconfig", NodeName: "n"},
		{DataDir: "/d", Running: true, PID: 7, Kind: "server", Ready: true, URL: "https://x", Kubeconfig: "/d/kubeconfig", NodeName: "n"},
		{DataDir: "/d", Running: true, PID: 7, Kind: "agent", Ready: true, URL: "https://x", NodeName: "worker"},
	} {
		raw, err := json.Marshal(status)
		require.NoError(t, err)
		text.WriteString(status.String() + string(raw) + "\n\n")
	}
	golden(t, "status", text.String())
}

// api is an API server that knows one answer; it wants a client certificate.
func api(t *testing.T, store *pki.Store, code int, body string) string {
	t.Helper()
	pair, err := store.Issue(store.Cluster, "serving", pki.Subject{Name: "s", Addresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	require.NoError(t, err)
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprint(w, strings.ReplaceAll(body, "CALLER", r.TLS.PeerCertificates[0].Subject.CommonName+" "+r.URL.Path))
	}))
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: store.Cluster.Pool(), ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// running is a directory that this process holds, with identities in it.
func running(t *testing.T) (datadir.Dir, *pki.Store) {
	t.Helper()
	dir := newDir(t)
	lock, err := dir.Lock()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, lock.Release()) })
	store, err := pki.Open(dir.Path("pki"))
	require.NoError(t, err)
	return dir, store
}

func TestReadStatus_of_a_server(t *testing.T) {
	for name, tc := range map[string]struct {
		code int
		body string
		want string
	}{
		"ready":     {200, "ok", ""},
		"not ready": {500, "[-]etcd failed", "probing URL/readyz: 500 Internal Server Error: [-]etcd failed"},
		"who asks":  {403, "CALLER", "probing URL/readyz: 403 Forbidden: localkube-admin /readyz"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, store := running(t)
			address := api(t, store, tc.code, tc.body)
			parsed, err := url.Parse(address)
			require.NoError(t, err)
			port, err := strconv.Atoi(parsed.Port())
			require.NoError(t, err)
			cfg := datadir.Config{NodeName: "n", ServiceCIDR: DefaultServiceCIDR, HTTPSPort: port}
			require.NoError(t, dir.SaveConfig(cfg))
			plane := controlplane.Options{Dir: dir, Config: cfg, Store: store, BindAddress: net.IPv4(127, 0, 0, 1), AdvertiseAddress: net.IPv4(127, 0, 0, 1)}
			require.NoError(t, plane.IssueIdentities())
			require.NoError(t, plane.WriteAdminKubeconfig(dir.Kubeconfig()))
			before := names(t, dir)

			status, err := ReadStatus(t.Context(), dir.Root())
			require.NoError(t, err)
			want := Status{
				DataDir: dir.Root(), Running: true, PID: os.Getpid(), Kind: "server", Ready: tc.want == "",
				Reason: strings.ReplaceAll(tc.want, "URL", address), URL: address, Kubeconfig: dir.Kubeconfig(), NodeName: "n",
			}
			require.Equal(t, want, status)
			require.Equal(t, before, names(t, dir), "looking changes nothing")
		})
	}
}

func TestReadStatus_of_a_server_that_is_broken(t *testing.T) {
	dir, _ := running(t)
	require.NoError(t, dir.SaveConfig(datadir.Config{NodeName: "n"}))
	write(t, dir, "x", "kubeconfig")
	require.NoError(t, os.Remove(dir.Path("pki", "etcd-ca.crt")))
	_, err := ReadStatus(t.Context(), dir.Root())
	require.EqualError(t, err, "opening authority etcd-ca: open "+dir.Path("pki", "etcd-ca.crt")+": no such file or directory")
	require.NoFileExists(t, dir.Path("pki", "etcd-ca.crt"), "a question founds no authority")
	write(t, dir, "x", "config.json")
	_, err = ReadStatus(t.Context(), dir.Root())
	require.ErrorContains(t, err, "reading settings in "+dir.Path("config.json"))
	write(t, dir, "x", "agent.json")
	_, err = ReadStatus(t.Context(), dir.Root())
	require.ErrorContains(t, err, "reading the agent's settings in "+dir.Path("agent.json"))
}

func TestReadStatus_of_an_agent(t *testing.T) {
	node := func(conditions string) string {
		return `{"apiVersion":"v1","kind":"Node","metadata":{"name":"worker"},"status":{"conditions":[` + conditions + `]}}`
	}
	for name, tc := range map[string]struct {
		code int
		body string
		want string
	}{
		"ready":        {200, node(`{"type":"Ready","status":"True"}`), ""},
		"not ready":    {200, node(`{"type":"Ready","status":"False","reason":"KubeletNotReady","message":"no CNI"}`), "node worker is not ready: KubeletNotReady: no CNI"},
		"said nothing": {200, node(""), "node worker is not ready: its kubelet has not said anything"},
		"unknown":      {404, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","message":"CALLER","code":404}`, "asking for node worker: system:node:worker /api/v1/nodes/worker"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, store := running(t)
			m := exampleMembership()
			m.APIServer = api(t, store, tc.code, tc.body)
			require.NoError(t, m.save(dir))
			pair, err := store.Issue(store.Cluster, "kubelet", pki.Subject{Name: "system:node:worker", Groups: []string{"system:nodes"}})
			require.NoError(t, err)
			cfg := pki.Kubeconfig{Server: m.APIServer, CA: store.Cluster.CertPEM(), User: "system:node:worker", Pair: pair}
			require.NoError(t, cfg.Write(dir.Path("kubeconfigs", "kubelet.kubeconfig")))
			status, err := ReadStatus(t.Context(), dir.Root())
			require.NoError(t, err)
			require.Equal(t, Status{
				DataDir: dir.Root(), Running: true, PID: os.Getpid(), Kind: "agent", Ready: tc.want == "", Reason: tc.want,
				URL: m.APIServer, NodeName: "worker",
			}, status)
		})
	}
	dir, _ := running(t)
	require.NoError(t, exampleMembership().save(dir))
	status, err := ReadStatus(t.Context(), dir.Root())
	require.NoError(t, err)
	require.Contains(t, status.Reason, "reading kubeconfig of kubelet", "it has joined and not started")
}
