package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-project/drover/cmd/drover/inventory"
)

// refused is a refusal in the words of an API server.
func refused(group, resource, name, sentence string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: resource}, name, errors.New(sentence))
}

// plainCases are errors and what a user reads.
func plainCases() map[string]struct {
	err  error
	want string
} {
	type c = struct {
		err  error
		want string
	}
	secrets := refused("", "secrets", "web-1-machine-state", `User "alice" cannot get resource "secrets" in API group "" in the namespace "shop"`)
	drivers := refused("management.cattle.io", "nodedrivers", "", `User "alice" cannot list resource "nodedrivers" in API group "management.cattle.io" at the cluster scope`)
	return map[string]c{
		"nothing":            {nil, ""},
		"an error of ours":   {errors.New("no machine"), "no machine"},
		"several":            {errors.Join(errors.New("one"), errors.New("two")), "one; two"},
		"lines and controls": {fmt.Errorf("%s", "one\r\n\n  two\x1b[31m\tthree\u202e\n"), "one; two three"},
		"one object in a namespace": {fmt.Errorf("getting the state: %w", secrets),
			`getting the state: secrets "web-1-machine-state" is forbidden: User "alice" cannot get resource "secrets" in API group "" in the namespace "shop"`},
		"a cluster-wide list": {drivers, `nodedrivers.management.cattle.io is forbidden: User "alice" cannot list resource "nodedrivers" in API group "management.cattle.io" at the cluster scope`},
		"two refusals": {fmt.Errorf("x: %w", errors.Join(secrets, fmt.Errorf("y: %w", drivers))),
			`x: secrets "web-1-machine-state" is forbidden: User "alice" cannot get resource "secrets" in API group "" in the namespace "shop"; ` +
				`y: nodedrivers.management.cattle.io is forbidden: User "alice" cannot list resource "nodedrivers" in API group "management.cattle.io" at the cluster scope`},
		"a subresource": {refused("", "pods", "p", `User "bob" cannot get resource "pods/log" in API group "" in the namespace "shop"`),
			`pods "p" is forbidden: User "bob" cannot get resource "pods/log" in API group "" in the namespace "shop"`},
		"a subresource of a group": {refused("apps", "deployments", "p", `User "bob" cannot patch resource "deployments/scale" in API group "apps" in the namespace "shop"`),
			`deployments.apps "p" is forbidden: User "bob" cannot patch resource "deployments/scale" in API group "apps" in the namespace "shop"`},
		"a path": {refused("", "", "", `User "system:anonymous" cannot get path "/apis/rke-machine.cattle.io/v1"`),
			`forbidden: User "system:anonymous" cannot get path "/apis/rke-machine.cattle.io/v1"`},
		"an authorizer's reason": {refused("", "secrets", "", `User "a\"b" cannot list resource "secrets" in API group "" in the namespace "shop": RBAC: role.rbac.authorization.k8s.io "x" not found`),
			`secrets is forbidden: User "a\"b" cannot list resource "secrets" in API group "" in the namespace "shop": RBAC: role.rbac.authorization.k8s.io "x" not found`},
		"a policy's refusal is told as it is": {refused("", "secrets", "s", "ValidatingAdmissionPolicy 'p' denied request: no"),
			`secrets "s" is forbidden: ValidatingAdmissionPolicy 'p' denied request: no`},
		"no or an old credential": {fmt.Errorf("listing x: %w", apierrors.NewUnauthorized("Unauthorized")),
			"listing x: the API server does not accept the kubeconfig's credential (401 Unauthorized): it is wrong or has expired"},
		"a name that does not resolve": {&url.Error{Op: "Get", URL: "https://api.example:6443/apis?limit=500", Err: &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "api.example"}}},
			"the API server https://api.example:6443 cannot be found: the name api.example does not resolve"},
		"a request without a URL": {&url.Error{Op: "Get", URL: ":", Err: errors.New("broken")}, "the API server cannot be asked: broken"},
		"no answer at all":        {&url.Error{Op: "Get", URL: "http://h:1/x", Err: io.ErrUnexpectedEOF}, "the API server http://h:1 closed the connection without an answer"},
		"a proxy that refuses": {&url.Error{Op: "Get", URL: "https://h/x", Err: &net.OpError{Op: "proxyconnect", Err: errors.New("Proxy Authentication Required")}},
			"the API server https://h cannot be reached: Proxy Authentication Required"},
		"a short error": {fmt.Errorf("it did not fit: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Message: "it", Reason: metav1.StatusReasonUnauthorized}}),
			"it did not fit: the API server does not accept the kubeconfig's credential (401 Unauthorized): it is wrong or has expired"},
		"an interrupt": {fmt.Errorf("listing x: %w", &url.Error{Op: "Get", URL: "https://h/", Err: context.Canceled}), "listing x: interrupted"},
	}
}

func TestPlain(t *testing.T) {
	for name, c := range plainCases() {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, inventory.Plain(c.err))
		})
	}
}

// TestPlainOfServers asks servers that do not answer as an API server does.
func TestPlainOfServers(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	silent := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	noKubernetes := serve(t, func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(http.StatusTeapot) })
	program := &clientcmdapi.ExecConfig{Command: "no-such-credential-program", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never",
		InstallHint: "Install it\nfrom its page."}
	for name, c := range map[string]struct {
		config      rest.Config
		want        string
		unreachable bool
	}{
		"nobody listens": {rest.Config{Host: closed.URL}, "the API server " + closed.URL + " cannot be reached: connection refused", true},
		"another authority": {rest.Config{Host: untrusted.URL}, "the API server " + untrusted.URL +
			" shows a certificate that is not accepted: x509: certificate signed by unknown authority", true},
		"another name": {rest.Config{Host: untrusted.URL, TLSClientConfig: rest.TLSClientConfig{ServerName: "api.example", CAData: certificateOf(untrusted)}},
			"the API server " + untrusted.URL + " shows a certificate that is not accepted: x509: certificate is valid for example.com, *.example.com, not api.example", true},
		"no answer in time":    {rest.Config{Host: silent, Timeout: 50 * time.Millisecond}, "the API server " + silent + " did not answer in time", true},
		"no Kubernetes at all": {rest.Config{Host: noKubernetes}, "the server responded with the status code 418 but did not return more information", false},
		"no TLS": {rest.Config{Host: strings.Replace(silent, "http://", "https://", 1)}, "the API server " + strings.Replace(silent, "http://", "https://", 1) +
			" cannot be asked: http: server gave HTTP response to HTTPS client", true},
		"no credential program": {rest.Config{Host: untrusted.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, ExecProvider: program},
			"the API server " + untrusted.URL + " cannot be asked: getting credentials: exec: executable no-such-credential-program not found; " +
				"It looks like you are trying to use a client-go credential plugin that is not installed.; " +
				"To learn more about this feature, consult the documentation available at:; " +
				"https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins; Install it; from its page.", true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := connect(t, &c.config).Kinds(t.Context())
			require.Equal(t, "asking the API for machine kinds: "+c.want, inventory.Plain(err))
			require.Equal(t, c.unreachable, inventory.IsUnreachable(err))
		})
	}
}

func serve(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.URL
}

func certificateOf(server *httptest.Server) []byte {
	return pemOf(server.Certificate().Raw)
}

// FuzzPlain: whatever a server says is one line that a terminal obeys in nothing.
func FuzzPlain(f *testing.F) {
	f.Add(`User "alice" cannot get resource "secrets" in API group "" in the namespace "shop"`, int32(403))
	f.Add("<html>\n<body>Bad gateway\x1b[2J</body>", int32(502))
	f.Add("User \"\x00\" cannot list path \"/\n\": \u202e", int32(403))
	f.Add("", int32(401))
	f.Fuzz(func(t *testing.T, message string, code int32) {
		reason := map[int32]metav1.StatusReason{401: metav1.StatusReasonUnauthorized, 403: metav1.StatusReasonForbidden}[code]
		status := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
		text := inventory.Plain(fmt.Errorf("getting %w", errors.Join(errors.New("it"), status)))
		require.True(t, strings.HasPrefix(text, "getting it"), text)
		for _, r := range text {
			require.False(t, unicode.IsControl(r) || unicode.Is(unicode.Cf, r), "%q", text)
		}
	})
}
