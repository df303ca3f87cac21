package words_test

import (
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/testkit/golden"
)

// answer is what a cloud answers to a request for a server, and the class that the driver's words about it must get.
type answer struct {
	name, class string
	status      int
	body        string
}

// sdk makes the request of a driver with the library that the driver uses, and says the error as the driver says it.
type sdk struct {
	driver  string
	kind    string
	ask     func(t *testing.T, url string) error
	answers []answer
}

func sdks() []sdk {
	return []sdk{
		{driver: "digitalocean", kind: "application/json", ask: askDigitalOcean, answers: digitalOceanAnswers()},
		{driver: "amazonec2", kind: "text/xml", ask: askAmazon, answers: amazonAnswers()},
		{driver: "azure", kind: "application/json", ask: askAzure, answers: azureAnswers()},
		{driver: "google", kind: "application/json", ask: askGoogle, answers: googleAnswers()},
		{driver: "openstack", kind: "application/json", ask: askOpenstack, answers: openstackAnswers()},
		{driver: "rackspace", kind: "application/json", ask: askRackspace, answers: rackspaceAnswers()},
		{driver: "exoscale", kind: "application/json", ask: askExoscale, answers: exoscaleAnswers()},
		{driver: "softlayer", kind: "application/json", ask: askSoftlayer, answers: softlayerAnswers()},
		{driver: "vmwarevcloudair", kind: "application/xml", ask: askVcloudair, answers: vcloudairAnswers()},
		{driver: "pod", kind: "application/json", ask: askKubernetes, answers: kubernetesAnswers()},
	}
}

// everyCloud are answers that any of them may give, from a load balancer or a proxy before its API.
func everyCloud() []answer {
	return []answer{
		{"a broken gateway", rkev1.ClassTransient, http.StatusBadGateway, "<html><body>Bad Gateway</body></html>"},
		{"nothing, and then the end", rkev1.ClassTransient, hangUp, ""},
	}
}

// hangUp stands for a status: the connection breaks instead of an answer.
const hangUp = -1

// cloudThat answers everything in one way.
func cloudThat(t *testing.T, kind string, a answer) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if a.status == hangUp {
			connection, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = connection.Close()
			}
			return
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(a.status)
		_, _ = fmt.Fprint(w, a.body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestClassify_what_SDKs_say asks each driver's own library, of a server that answers as the cloud does, and classifies the
// library's error. testdata/sdk.golden keeps the words, so that a new release of a library shows what it says differently.
func TestClassify_what_SDKs_say(t *testing.T) {
	said := map[string][]string{}
	for _, s := range sdks() {
		t.Run(s.driver, func(t *testing.T) {
			for _, a := range slices.Concat(s.answers, everyCloud()) {
				t.Run(a.name, func(t *testing.T) {
					url := cloudThat(t, s.kind, a)
					err := s.ask(t, url)
					require.Error(t, err)
					require.Equal(t, a.class, clouds.Of(s.driver).Classify(err.Error()), "%s", err)
					if a.status == hangUp {
						return // what is said then is the operating system's, and differs from time to time
					}
					text := strings.ReplaceAll(err.Error(), strings.TrimPrefix(url, "http://"), "cloud.example")
					said[s.driver] = append(said[s.driver], a.class+" | "+s.driver+" | "+fmt.Sprintf("%q", text))
				})
			}
		})
	}
	var lines []string
	for _, driver := range slices.Sorted(maps.Keys(said)) {
		lines = append(lines, said[driver]...)
	}
	golden.Require(t, "testdata/sdk.golden", strings.Join(lines, "\n")+"\n")
}

// TestClassify_nobody_listens: a cloud that cannot be reached is waited for, whatever the library.
func TestClassify_nobody_listens(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	for _, s := range sdks() {
		err := s.ask(t, server.URL)
		require.Error(t, err)
		require.Equal(t, rkev1.ClassTransient, clouds.Of(s.driver).Classify(err.Error()), "%s: %s", s.driver, err)
		require.False(t, clouds.Of(s.driver).IsGone(err.Error()), "%s: %s", s.driver, err)
	}
}

// TestClassify_untrusted_certificate: no library hides that the cloud's certificate is not believed, and waiting does not help.
func TestClassify_untrusted_certificate(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	for _, s := range sdks() {
		err := s.ask(t, server.URL)
		require.Error(t, err)
		require.Equal(t, rkev1.ClassInvalid, clouds.Of(s.driver).Classify(err.Error()), "%s: %s", s.driver, err)
	}
}
