package bootstrap_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/api/connect"
	"github.com/drover-project/drover/api/plan"
	"github.com/drover-project/drover/bootstrap"
	"github.com/drover-project/drover/testkit/golden"
)

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func install() bootstrap.Install {
	sum := sumOf([]byte("an agent"))
	return bootstrap.Install{Server: "https://manager.example.org:8443", CAChecksum: sumOf([]byte("ca")), Token: "drover/team-a/one/ABCDEFGHIJKLMNOPQRSTUVWXYZ",
		Sums: map[string]string{"amd64": sum, "arm64": sum}, Env: []plan.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy:3128"},
			{Name: "GREETING", Value: `it's "$5" \ ` + "`id`"}}}
}

func TestScript(t *testing.T) {
	script, err := bootstrap.Script(install())
	require.NoError(t, err)
	golden.Require(t, "testdata/script.golden", string(script))
	require.Less(t, len(script), bootstrap.MaxBytes-2048, "room for variables of the user's")
}

func TestScript_refuses(t *testing.T) {
	for text, change := range map[string]func(*bootstrap.Install){
		`the server URL "http://x" is not https://host[:port]`:                                  func(i *bootstrap.Install) { i.Server = "http://x" },
		`the server URL "https://x/path" is not https://host[:port]`:                            func(i *bootstrap.Install) { i.Server = "https://x/path" },
		"the authorities' checksum is no SHA-256 in hex":                                        func(i *bootstrap.Install) { i.CAChecksum = "abc" },
		`the agent's folder "/a\"b" is not an absolute path`:                                    func(i *bootstrap.Install) { i.Folder = `/a"b` },
		"the token has characters that no token has":                                            func(i *bootstrap.Install) { i.Token = "a'b" },
		`the agent's folder "relative" is not an absolute path`:                                 func(i *bootstrap.Install) { i.Folder = "relative" },
		"no agent is available for linux":                                                       func(i *bootstrap.Install) { i.Sums = nil },
		"the checksum of the agent for arm64 is no SHA-256 in hex":                              func(i *bootstrap.Install) { i.Sums["arm64"] = "x" },
		`agentEnvVars[0]: "A B" is not a valid variable name`:                                   func(i *bootstrap.Install) { i.Env[0].Name = "A B" },
		"agentEnvVars[1]: PATH cannot be set, because the install script and the agent need it": func(i *bootstrap.Install) { i.Env[1].Name = "PATH" },
		"agentEnvVars[0]: the value of HTTPS_PROXY is not one line":                             func(i *bootstrap.Install) { i.Env[0].Value = "a\nb" },
		"it has ": func(i *bootstrap.Install) { i.Env[0].Value = strings.Repeat("x", 5000) },
	} {
		i := install()
		change(&i)
		_, err := bootstrap.Script(i)
		require.ErrorContains(t, err, "writing the install script: "+text)
		require.NotContains(t, err.Error(), "ABCDEFGHIJ")
	}
}

// server is a new server: a root of its own, and programs that stand in for systemd's and for what cannot be done here.
type server struct {
	*testing.T
	root string
	// asked counts the endpoint's answers; down are those that fail first.
	asked, down atomic.Int32
	agent       []byte
	authorities []byte
	// sum is what the endpoint says of its agent, if anything.
	sum     string
	install bootstrap.Install
	// path is where its programs are, beside those that stand in.
	path string
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{T: t, root: t.TempDir(), path: os.Getenv("PATH"), agent: []byte("#!/bin/sh\n")}
	endpoint := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		if s.down.Add(-1) >= 0 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		switch r.URL.Path {
		case "/cacerts":
			_, _ = w.Write(s.authorities)
		case "/healthz":
			_, _ = io.WriteString(w, "ok")
		case "/assets/drover-agent-linux-amd64", "/assets/drover-agent-linux-arm64":
			_, _ = w.Write(s.agent)
		case "/assets/drover-agent-linux-amd64.sha256", "/assets/drover-agent-linux-arm64.sha256":
			_, _ = w.Write([]byte(s.sum + "\n"))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(endpoint.Close)
	s.authorities = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: endpoint.Certificate().Raw})
	s.install = install()
	s.install.Server, s.install.CAChecksum = endpoint.URL, sumOf(s.authorities)
	s.install.Env = s.install.Env[1:]
	s.install.Sums = map[string]string{"amd64": sumOf(s.agent), "arm64": sumOf(s.agent)}
	s.write("proc/uptime", "100.00 90.00\n", 0o600)
	s.write("proc/mounts", "", 0o600)
	s.program("systemctl", `echo "$*" >>"$DROVER_ROOT/systemctl"
case "$*" in *is-active*) [ -e "$DROVER_ROOT/active" ] ;; *restart*) touch "$DROVER_ROOT/active" ;; esac`)
	s.program("id", "echo 0")
	s.program("sleep", `echo "$1" >>"$DROVER_ROOT/slept"`)
	return s
}

func (s *server) write(name, content string, mode os.FileMode) {
	s.Helper()
	path := filepath.Join(s.root, name)
	require.NoError(s, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(s, os.WriteFile(path, []byte(content), mode))
}

func (s *server) program(name, body string) {
	s.Helper()
	s.write(filepath.Join("programs", name), "#!/bin/sh\n"+body+"\n", 0o755)
}

func (s *server) read(name string) string {
	s.Helper()
	content, err := os.ReadFile(filepath.Join(s.root, name))
	require.NoError(s, err)
	return string(content)
}

func (s *server) run() (string, error) {
	s.Helper()
	script, err := bootstrap.Script(s.install)
	require.NoError(s, err)
	return s.shell(script)
}

// shell runs a script on the server.
func (s *server) shell(script []byte) (string, error) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), "/bin/sh", "-s")
	cmd.Stdin = bytes.NewReader(script)
	cmd.Env = []string{"DROVER_ROOT=" + s.root, "PATH=" + filepath.Join(s.root, "programs") + ":" + s.path}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A real shell runs the script against a real endpoint; afterwards all is there, and running it again changes and restarts nothing.
func TestScript_installs(t *testing.T) {
	s := newServer(t)
	s.down.Store(2)
	out, err := s.run()
	require.NoError(t, err, out)
	require.Equal(t, 1, strings.Count(out, "waiting for "+s.install.Server+"/cacerts?checksum="), "said once: %s", out)
	require.Equal(t, "2\n4\n", s.read("slept"))
	require.Contains(t, out, "drover: the agent is installed")
	require.Equal(t, string(s.agent), s.read("usr/local/bin/drover-agent"))
	require.Equal(t, s.install.Token+"\n", s.read("etc/drover/token"))
	require.JSONEq(t, `{"server":"`+s.install.Server+`","caFile":"/etc/drover/ca.crt","tokenFile":"/etc/drover/token","folder":"/var/lib/drover-agent"}`, s.read("etc/drover/agent.yaml"))
	require.Equal(t, `GREETING="it's \"\$5\" \\ `+"\\`id\\`\"\n", s.read("etc/drover/agent.env"))
	for _, name := range []string{"token", "agent.yaml", "agent.env", "ca.crt"} {
		info, err := os.Stat(filepath.Join(s.root, "etc/drover", name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
	}
	require.Contains(t, s.read("systemctl"), "restart drover-agent")

	before := s.read("systemctl")
	out, err = s.run()
	require.NoError(t, err, out)
	require.Equal(t, before+"--quiet is-active drover-agent\n", s.read("systemctl"))

	s.install.Env = nil
	out, err = s.run()
	require.NoError(t, err, out)
	require.Equal(t, 2, strings.Count(s.read("systemctl"), "restart drover-agent"), "what changed reaches the agent")
}

// Of two runs at once the second says that it waits for the first.
func TestScript_twoAtOnce(t *testing.T) {
	s := newServer(t)
	s.program("flock", `[ "$1" != -n ]`) // the first ends meanwhile
	out, err := s.run()
	require.NoError(t, err, out)
	require.Equal(t, "drover: waiting for another run of this script\n"+
		"drover: the agent is installed; journalctl -u drover-agent tells what it does\n", out)
}

// The wait goes on after a restart of the server, whoever ran the script: a unit of systemd has it until the agent is installed.
func TestScript_restart(t *testing.T) {
	s := newServer(t)
	script, err := bootstrap.Script(s.install)
	require.NoError(t, err)
	s.write("part-001", string(script), 0o700)
	s.program("sleep", `kill -9 "$PPID"`) // a power cut
	s.down.Store(1)
	out, code := s.sh(nil, filepath.Join(s.root, "part-001"))
	require.NotZero(t, code, out)
	require.Equal(t, "enable --quiet drover-install\n", s.read("systemctl"))
	kept := filepath.Join(s.root, "etc/drover/install")
	require.Contains(t, s.read("etc/systemd/system/drover-install.service"), "\nExecStart=/bin/sh "+kept+"\n")
	info, err := os.Stat(kept)
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o077, "a token is in it")

	require.NoError(t, os.Remove(filepath.Join(s.root, "part-001")))
	s.down.Store(1)
	_, code = s.sh(nil, kept)
	require.NotZero(t, code, "cut off once more")
	out, code = s.sh(nil, kept)
	require.Zero(t, code, out)
	require.Contains(t, s.read("systemctl"), "restart drover-agent\ndisable --quiet drover-install\n")
	require.Equal(t, []string{"drover-agent.service"}, names(t, filepath.Join(s.root, "etc/systemd/system")))
	require.NoFileExists(t, kept)
}

// A manager that was upgraded while the server booted has another agent, and says so itself.
func TestScript_upgrade(t *testing.T) {
	s := newServer(t)
	s.agent = []byte("the next agent")
	s.sum = sumOf(s.agent)
	out, err := s.run()
	require.NoError(t, err, out)
	require.Equal(t, "the next agent", s.read("usr/local/bin/drover-agent"))
	require.Equal(t, []string{"drover-agent"}, names(t, filepath.Join(s.root, "usr/local/bin")))

	before := s.read("systemctl")
	out, err = s.run()
	require.NoError(t, err, out)
	require.Equal(t, before+"--quiet is-active drover-agent\n", s.read("systemctl"), "it is there already")
}

func names(t *testing.T, folder string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, entry := range entries {
		out = append(out, entry.Name())
	}
	return out
}

// The way back after another authority or address, when the token is long burned: the machine's script, or the one that is served, which knows no machine.
func TestScript_again(t *testing.T) {
	s := newServer(t)
	s.install.Folder = filepath.Join(s.root, "agent")
	out, err := s.run()
	require.NoError(t, err, out)
	registered(s, "team-a", "one")
	require.NoError(t, os.Remove(filepath.Join(s.root, "etc/drover/token")))
	before := s.read("etc/drover/agent.yaml") + s.read("etc/drover/agent.env") + s.read("etc/drover/ca.crt")
	for restarts, change := range []func(*bootstrap.Install){
		func(*bootstrap.Install) {},
		func(i *bootstrap.Install) { i.Token = "" },
		func(i *bootstrap.Install) { i.Folder, i.Env, i.ByHand = "", nil, true },
	} {
		change(&s.install)
		s.write("etc/drover/ca.crt", "of another authority", 0o600)
		out, err = s.run()
		require.NoError(t, err, out)
		require.Equal(t, before, s.read("etc/drover/agent.yaml")+s.read("etc/drover/agent.env")+s.read("etc/drover/ca.crt"))
		require.NoFileExists(t, filepath.Join(s.root, "etc/drover/token"))
		require.Equal(t, restarts+2, strings.Count(s.read("systemctl"), "restart drover-agent"))
	}
}

// A script of before the endpoint got another certificate: nothing of it has to be downloaded any more, but its agent cannot call.
func TestScript_anotherCertificate(t *testing.T) {
	for tool, other := range map[string]string{"curl": "wget", "wget": "curl"} {
		t.Run(tool, func(t *testing.T) {
			s := newServer(t)
			s.lacks(other)
			out, err := s.run()
			require.NoError(t, err, out)
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			require.NoError(t, err)
			ofAnother := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
			another, err := x509.CreateCertificate(rand.Reader, ofAnother, ofAnother, key.Public(), key)
			require.NoError(t, err)
			s.authorities = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: another})
			s.install.CAChecksum = sumOf(s.authorities) // it is still told of
			out, err = s.run()
			require.Error(t, err)
			require.Contains(t, out, "drover: the agent is installed, but by the CA certificates of this script it cannot call "+s.install.Server+": ")
			require.NotContains(t, out, "journalctl")
		})
	}
}

// registered is what an agent leaves that has a plan Secret.
func registered(s *server, namespace, name string) {
	s.Helper()
	answer, err := json.Marshal(connect.Answer{KubeConfig: `a: "namespace"`, Namespace: namespace, SecretName: name, Ticket: "x"})
	require.NoError(s, err)
	s.write("agent/rancher2_connection_info.json", string(answer), 0o600)
}

// An agent of another machine's would never take up this one's plans: it stays as it is, and the script says so.
func TestScript_anothersAgent(t *testing.T) {
	for name, follows := range map[string][]string{"another machine's": {"team-a", "two"}, "another namespace's": {"team-b", "one"}, "one whose name is longer": {"team-a", "one-1"}} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.install.Folder = filepath.Join(s.root, "agent")
			registered(s, follows[0], follows[1])
			out, err := s.run()
			require.Error(t, err)
			require.Equal(t, "drover: another machine's agent is here: clean this server as docs/drivers.md tells\n", out)
			require.NoFileExists(t, filepath.Join(s.root, "systemctl"))
			require.NoDirExists(t, filepath.Join(s.root, "etc"))
		})
	}
}

// lacks takes programs off the server.
func (s *server) lacks(programs ...string) {
	s.Helper()
	path := filepath.Join(s.root, "programs", "real")
	require.NoError(s, os.MkdirAll(path, 0o755))
	for _, folder := range filepath.SplitList(s.path) {
		entries, _ := os.ReadDir(folder)
		for _, entry := range entries {
			if !slices.Contains(programs, entry.Name()) {
				_ = os.Symlink(filepath.Join(folder, entry.Name()), filepath.Join(path, entry.Name())) // the first of a name counts
			}
		}
	}
	s.path = path
}

// proxy is a proxy that counts what goes through it.
func (s *server) proxy() (address string, used *atomic.Int32) {
	s.Helper()
	used = &atomic.Int32{}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		used.Add(1)
		to, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", r.Host)
		if err != nil || r.Method != http.MethodConnect {
			http.Error(w, "not by this proxy", http.StatusBadGateway)
			return
		}
		defer to.Close()
		from, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(to, buffered) }()
		_, _ = io.Copy(from, to)
	}))
	s.Cleanup(proxy.Close)
	return proxy.URL, used
}

// givesUp is a sleep after which the script has waited for as long as it may.
const givesUp = `echo "30000.00 1.00" >"$DROVER_ROOT/proc/uptime"`

// Servers differ in what they have, and in what is between them and the manager.
func TestScript_servers(t *testing.T) {
	for what, change := range map[string]func(*server) (check func()){
		"a proxy": func(s *server) func() {
			address, used := s.proxy()
			s.install.Env = []plan.EnvVar{{Name: "HTTPS_PROXY", Value: address}}
			return func() { require.EqualValues(s, 2, used.Load()) }
		},
		"a proxy that is not for the manager": func(s *server) func() {
			s.install.Env = []plan.EnvVar{{Name: "HTTPS_PROXY", Value: "http://127.0.0.1:1"}, {Name: "NO_PROXY", Value: "127.0.0.1"}}
			return func() {}
		},
		"a /usr that cannot be written": func(s *server) func() {
			s.write("usr/local", "", 0o600)
			return func() {
				require.Equal(s, string(s.agent), s.read("opt/drover/bin/drover-agent"))
				require.Contains(s, s.read("etc/systemd/system/drover-agent.service"), "ExecStart="+s.root+"/opt/drover/bin/drover-agent ")
			}
		},
		"authorities of its own": func(s *server) func() { // of curl and of wget
			own := filepath.Join(s.root, "own.crt")
			s.write("own.crt", string(s.authorities), 0o600)
			s.write("wgetrc", "ca_certificate="+own+"\n", 0o600)
			s.install.CAChecksum = ""
			s.install.Env = []plan.EnvVar{{Name: "SSL_CERT_FILE", Value: own}, {Name: "WGETRC", Value: filepath.Join(s.root, "wgetrc")}}
			return func() {
				require.NotContains(s, s.read("etc/drover/agent.yaml"), "caFile")
				require.NoFileExists(s, filepath.Join(s.root, "etc/drover/ca.crt"))
			}
		},
	} {
		for tool, other := range map[string]string{"curl": "wget", "wget": "curl"} {
			t.Run(what+", "+tool, func(t *testing.T) {
				_, err := exec.LookPath(tool)
				require.NoError(t, err, "make setup installs it")
				s := newServer(t)
				s.program("sleep", givesUp)
				s.lacks(other)
				check := change(s)
				out, err := s.run()
				require.NoError(t, err, out)
				require.Contains(t, out, "drover: the agent is installed")
				check()
			})
		}
	}
}

// What is not what the script was told is never put in place, and at its time the script gives up and says why.
func TestScript_givesUp(t *testing.T) {
	for what, tt := range map[string]struct {
		wrong func(*server)
		says  string
	}{
		"another authority": {func(s *server) { s.install.CAChecksum = sumOf([]byte("other")) }, ": what came has not the SHA-256 "},
		"another agent":     {func(s *server) { s.agent = []byte("evil") }, "what came has not the SHA-256 "},
		"a damaged one":     {func(s *server) { s.sum, s.agent = sumOf([]byte("new")), []byte("ne") }, "what came has not the SHA-256 "},
		"a sum of nobody's": {func(s *server) {
			s.sum, s.agent, s.install.CAChecksum = sumOf([]byte("evil")), []byte("evil"), ""
		}, "curl: (60)"},
		"no manager": {func(s *server) { s.down.Store(1000) }, "/cacerts?checksum="},
	} {
		t.Run(what, func(t *testing.T) {
			s := newServer(t)
			tt.wrong(s)
			s.program("sleep", givesUp)
			out, err := s.run()
			require.Error(t, err)
			require.Contains(t, out, "drover: giving up: "+s.install.Server)
			require.Contains(t, out, tt.says)
			require.NoFileExists(t, filepath.Join(s.root, "usr/local/bin/drover-agent"))
			require.NoFileExists(t, filepath.Join(s.root, "systemctl"))
		})
	}
	s := newServer(t)
	s.program("id", "echo 1000")
	out, err := s.run()
	require.Error(t, err)
	require.Equal(t, "drover: this must be run as root\n", out)
	s = newServer(t)
	s.install.Token = ""
	out, err = s.run()
	require.Error(t, err)
	require.Equal(t, "drover: no token: see docs/endpoint.md\n", out)
	s = newServer(t)
	s.program("uname", "echo riscv64")
	out, err = s.run()
	require.Error(t, err)
	require.Equal(t, "drover: no agent is available for a server of riscv64\n", out)
}

// FuzzScript: whatever a user writes into agentEnvVars stays a value: the shell reads it back as it was.
func FuzzScript(f *testing.F) {
	f.Add("A", "it's $(id)")
	f.Fuzz(func(t *testing.T, name, value string) {
		i := install()
		i.Env = []plan.EnvVar{{Name: name, Value: value}}
		script, err := bootstrap.Script(i)
		if err != nil {
			return
		}
		prologue, _, _ := strings.Cut(string(script), "\n: \"${DROVER_ROOT")
		cmd := exec.CommandContext(t.Context(), "/bin/sh")
		cmd.Env = []string{"LC_ALL=C"}
		cmd.Stdin = strings.NewReader(prologue + "\nprintf %s \"$" + name + "\"\n")
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Equal(t, value, string(out))
	})
}
