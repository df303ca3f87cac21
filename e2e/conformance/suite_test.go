package conformance

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/format"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/framework"
)

const (
	// kubeconfigVariable names the testbed to use; clusterctl and kubectl are looked for in PATH.
	kubeconfigVariable = "DROVER_E2E_KUBECONFIG"

	clusterName = "conformance"
	replicas    = 2

	runningLimit = 8 * time.Minute
	goneLimit    = 5 * time.Minute
)

func TestConformance(t *testing.T) {
	if os.Getenv(kubeconfigVariable) == "" {
		t.Skip("needs a testbed that is up: " + kubeconfigVariable + " names its kubeconfig; `make e2e` does it all")
	}
	RegisterFailHandler(Fail)
	format.MaxLength = 0
	RunSpecs(t, "Conformance to Cluster API")
}

// newProxy is the framework's access to the testbed.
func newProxy() framework.ClusterProxy {
	scheme := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(clusterv1.AddToScheme(scheme)).To(Succeed())
	Expect(addonsv1.AddToScheme(scheme)).To(Succeed())
	return framework.NewClusterProxy("testbed", os.Getenv(kubeconfigVariable), scheme)
}

// run runs a program against the testbed and returns what it printed.
func run(ctx context.Context, input string, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+os.Getenv(kubeconfigVariable), "CLUSTERCTL_DISABLE_VERSIONCHECK=true")
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	return string(out), err
}

// kubectl must succeed.
func kubectl(ctx context.Context, input string, args ...string) string {
	GinkgoHelper()
	out, err := run(ctx, input, "kubectl", args...)
	Expect(err).NotTo(HaveOccurred(), "kubectl %s\n%s", strings.Join(args, " "), out)
	return out
}

func makeNamespace(ctx context.Context, proxy framework.ClusterProxy) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{}
	namespace.GenerateName = clusterName + "-"
	Expect(proxy.GetClient().Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}
