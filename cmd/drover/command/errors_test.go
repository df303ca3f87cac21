package command_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-project/drover/cmd/drover/command"
	"github.com/drover-project/drover/testkit"
)

// through is the same cluster behind a proxy, in which intercept answers instead of the API server when it returns true.
func (c *cluster) through(t *testing.T, intercept func(http.ResponseWriter, *http.Request) bool) *cluster {
	t.Helper()
	config := testkit.Config(t)
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if !intercept(out, r) {
			proxy.ServeHTTP(out, r)
		}
	}))
	t.Cleanup(server.Close)
	return &cluster{Client: c.Client, namespace: c.namespace, kubeconfig: kubeconfig(t, server.URL, "")}
}

// kubeconfig writes one with contexts shop, whose namespace is given, and elsewhere, whose server is another; shop is current.
func kubeconfig(t *testing.T, server, namespace string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["shop-cluster"] = &clientcmdapi.Cluster{Server: server}
	config.Clusters["elsewhere-cluster"] = &clientcmdapi.Cluster{Server: "http://127.0.0.1:1"}
	config.AuthInfos["clerk"] = &clientcmdapi.AuthInfo{}
	config.Contexts["shop"] = &clientcmdapi.Context{Cluster: "shop-cluster", AuthInfo: "clerk", Namespace: namespace}
	config.Contexts["elsewhere"] = &clientcmdapi.Context{Cluster: "elsewhere-cluster", AuthInfo: "clerk"}
	config.CurrentContext = "shop"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, path))
	return path
}

// status answers as an API server that refuses does.
func status(out http.ResponseWriter, code int, reason, message string) bool {
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(code)
	_, _ = io.WriteString(out, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"`+reason+`","message":"`+message+`","code":`+strconv.Itoa(code)+`}`)
	return true
}

// asking are command lines of every command that asks the cluster.
func asking() [][]string {
	return [][]string{
		{"get"}, {"get", "web-1", "-o", "json"}, {"get", "-w"}, {"drivers"}, {"get", "drivers", "-o", "yaml"}, {"why", "web-1"}, {"why", "driver/generic", "-o", "json"},
		{"why", "md/pool"}, {"logs", "web-1"}, {"ssh", "web-1", "--", "true"}, {"scp", ".", "web-1:b"}, {"scp", "web-1:a", "b"},
		{"keys", "web-1"}, {"retry", "web-1"}, {"abandon", "web-1", "--yes"},
	}
}

// requireError expects a failure that is told in one line, and nothing on standard output.
func requireError(t *testing.T, r result) string {
	t.Helper()
	require.Contains(t, []int{1, 255}, r.code, r.errOut) // 255 is ssh's
	require.Empty(t, r.out)
	line, rest, ended := strings.Cut(r.errOut, "\n")
	require.True(t, ended)
	require.Empty(t, rest, "one line")
	require.True(t, strings.HasPrefix(line, "error: "), line)
	return strings.TrimPrefix(line, "error: ")
}

func TestEveryCommandTellsOfAServerThatIsGone(t *testing.T) {
	path := kubeconfig(t, "http://127.0.0.1:1", "")
	for _, args := range asking() {
		t.Run(strings.ReplaceAll(strings.Join(args, " "), "/", ":"), func(t *testing.T) {
			text := requireError(t, execute(t, command.Options{}, "", append([]string{"--kubeconfig", path}, args...)...))
			_, cause, found := strings.Cut(text, ": ")
			require.True(t, found)
			require.Equal(t, `the API server http://127.0.0.1:1 cannot be reached: connection refused (context "shop"; choose another with --context)`, cause)
		})
	}
}

func TestEveryCommandTellsWhatTheServerSays(t *testing.T) {
	c := newCluster(t)
	for want, answer := range map[string]func(out http.ResponseWriter) bool{
		"the API server does not accept the kubeconfig's credential (401 Unauthorized): it is wrong or has expired": func(out http.ResponseWriter) bool {
			return status(out, http.StatusUnauthorized, "Unauthorized", "Unauthorized")
		},
		"etcd is ill; and red": func(out http.ResponseWriter) bool {
			return status(out, http.StatusInternalServerError, "InternalError", `etcd is ill\nand\u001b[31m red`)
		},
	} {
		through := c.through(t, func(out http.ResponseWriter, _ *http.Request) bool { return answer(out) })
		for _, args := range asking() {
			require.Contains(t, requireError(t, through.drover(t, args...)), want, args)
		}
	}
}

// TestEveryCommandTellsOfARightThatLacks: the sentence has all that an administrator needs to grant it, and no kind twice.
func TestEveryCommandTellsOfARightThatLacks(t *testing.T) {
	c := newCluster(t)
	c.apply(t, runningMachine)
	ns := c.namespace
	cannot := func(verb, resource, group, where string) string {
		return fmt.Sprintf(`is forbidden: User "eve" cannot %s resource %q in API group %q %s`, verb, resource, group, where)
	}
	const everywhere, machines = "at the cluster scope", "digitaloceanmachines, genericmachines (rke-machine.cattle.io) in "
	for want, lines := range map[string][][]string{
		"listing machines: you may not list: " + machines + "namespace " + ns + " (ask your administrator for access)": {{"get"}, {"get", "web-1", "-o", "json"}, {"get", "-w"}, {"gc"}},
		"listing machines: you may not list: " + machines + "the whole cluster (ask your administrator for access)":    {{"get", "-A"}},
		cannot("list", "nodedrivers", "management.cattle.io", everywhere): {
			{"drivers"}, {"get", "drivers"}, {"why", "driver/generic"}},
		"in namespace \"" + ns + "\": you may not get or list: machines (cluster.x-k8s.io), " + machines + "namespace " + ns + " (ask your administrator for access)": {{"why", "web-1"}, {"logs", "web-1"}, {"ssh", "web-1", "--", "true"}, {"keys", "web-1"},
			{"retry", "web-1"}, {"abandon", "web-1", "-y"}, {"scp", ".", "web-1:"}},
		`no MachineDeployment or MachineSet "pool" in namespace "` + ns + `" that could be read: getting machinedeployments ` + ns + `/pool: `: {{"why", "md/pool"}},
	} {
		for _, args := range lines {
			require.Contains(t, requireError(t, c.drover(t, append([]string{"--as", "eve"}, args...)...)), want, args)
		}
	}
}

func TestKubeconfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	good := kubeconfig(t, "http://127.0.0.1:1", "")
	empty, nonsense := write("empty", ""), write("nonsense", "apiVersion: v1\nclusters: {a: b\n")
	noServer := write("noserver", "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {certificate-authority: /nonexistent/ca}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n")
	lost := write("lost", "apiVersion: v1\nkind: Config\ncurrent-context: nowhere\n")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"missing file":         {[]string{"--kubeconfig", filepath.Join(dir, "none")}, "reading the kubeconfig: stat " + filepath.Join(dir, "none") + ": no such file or directory"},
		"a directory":          {[]string{"--kubeconfig", dir}, "reading the kubeconfig: error loading config file \"" + dir + "\": read " + dir + ": is a directory"},
		"empty":                {[]string{"--kubeconfig", empty}, "no kubeconfig: name one with --kubeconfig or in KUBECONFIG"},
		"unknown context":      {[]string{"--kubeconfig", good, "--context", "attic"}, `reading the kubeconfig: context "attic" does not exist`},
		"unknown cluster":      {[]string{"--kubeconfig", good, "--cluster", "attic"}, `reading the kubeconfig: cluster "attic" does not exist`},
		"unknown user":         {[]string{"--kubeconfig", good, "--user", "attic"}, `reading the kubeconfig: auth info "attic" does not exist`},
		"no such current":      {[]string{"--kubeconfig", lost}, "reading the kubeconfig: "},
		"not YAML":             {[]string{"--kubeconfig", nonsense}, "reading the kubeconfig: error loading config file \"" + nonsense + "\": "},
		"a CA that is no file": {[]string{"--kubeconfig", noServer}, "reading the kubeconfig: "},
		"another context":      {[]string{"--kubeconfig", good, "--context", "elsewhere"}, `(context "elsewhere"; choose another with --context)`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, args := range [][]string{{"get"}, {"why", "x"}, {"version", "--client=false"}} {
				r := execute(t, command.Options{}, "", append(slices.Clone(c.args), args...)...)
				if args[0] == "version" {
					require.Zero(t, r.code)
					require.Contains(t, r.errOut, "# the version of Kubernetes is unknown: ")
					continue
				}
				require.Contains(t, requireError(t, r), c.want)
			}
		})
	}
}

// TestNamespace: the flag goes before the context's, that before default.
func TestNamespace(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/rke-machine.cattle.io/v1" {
			out.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(out, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"rke-machine.cattle.io/v1","resources":[{"name":"xmachines","singularName":"xmachine","namespaced":true,"kind":"XMachine","verbs":["list"]}]}`)
			return
		}
		status(out, http.StatusConflict, "Conflict", "asked for "+r.URL.Path)
	}))
	t.Cleanup(server.Close)
	with, without := kubeconfig(t, server.URL, "stall"), kubeconfig(t, server.URL, "")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"the context's":     {[]string{"--kubeconfig", with, "get"}, "/namespaces/stall/xmachines"},
		"the flag's":        {[]string{"--kubeconfig", with, "get", "-n", "yard"}, "/namespaces/yard/xmachines"},
		"default":           {[]string{"--kubeconfig", without, "get"}, "/namespaces/default/xmachines"},
		"all":               {[]string{"--kubeconfig", with, "get", "-A", "-n", "yard"}, "/apis/rke-machine.cattle.io/v1/xmachines"},
		"one machine":       {[]string{"--kubeconfig", with, "why", "a"}, "/namespaces/stall/xmachines/a"},
		"not out of a path": {[]string{"--kubeconfig", with, "get", "-n", "../x"}, `invalid namespace "../x"`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, requireError(t, execute(t, command.Options{}, "", c.args...)), c.want)
		})
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none")+string(filepath.ListSeparator)+with)
	require.Contains(t, requireError(t, execute(t, command.Options{}, "", "get")), "/namespaces/stall/xmachines", "KUBECONFIG may list several")
}

func TestNamesThatAreNone(t *testing.T) {
	c := newCluster(t)
	for _, command := range []string{"why", "logs", "retry", "abandon", "keys", "ssh"} {
		require.Equal(t, "a name is empty: write NAME or KIND/NAME", requireError(t, c.drover(t, command, "")))
		require.Equal(t, `"a/b" is not a valid name: it may not contain '/'`, requireError(t, c.drover(t, command, "genericmachine/a/b")))
		require.Equal(t, `no machine "x" in namespace "`+c.namespace+`" (see 'drover get -A')`, requireError(t, c.drover(t, command, "x")))
	}
	for _, ref := range []string{"md/", "ms/", "driver/"} {
		require.Equal(t, "a name is empty: write NAME or KIND/NAME", requireError(t, c.drover(t, "why", ref)))
	}
	require.Equal(t, `"a/../b" is not a valid name: it may not contain '/'`, requireError(t, c.drover(t, "why", "md/a/../b")))
	r := execute(t, command.Options{Name: "kubectl drover"}, "", "--kubeconfig", c.kubeconfig, "-n", c.namespace, "ssh", "x")
	require.Equal(t, `no machine "x" in namespace "`+c.namespace+`" (see 'kubectl drover get -A')`, requireError(t, r))
}

// TestInterrupt: who interrupts needs no error, and scripts see it by the code.
func TestInterrupt(t *testing.T) {
	c := newCluster(t)
	ctx, cancel := context.WithCancel(t.Context())
	slow := c.through(t, func(_ http.ResponseWriter, r *http.Request) bool {
		cancel()
		<-r.Context().Done()
		return true
	})
	r := executeWith(ctx, command.Options{}, "", "--kubeconfig", slow.kubeconfig, "-n", c.namespace, "get")
	require.Equal(t, result{code: 130}, r)
}

// TestRequestTimeout: a server that is silent is told of when the user's patience ends.
func TestRequestTimeout(t *testing.T) {
	silent := newCluster(t).through(t, func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	})
	text := requireError(t, silent.drover(t, "get", "--request-timeout", "50ms"))
	require.Contains(t, text, "did not answer in time")
}
