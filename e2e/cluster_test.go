package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/rogpeppe/go-internal/testscript"

	localcloud "github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/distribution"
)

// registryEnv is where a story's servers pull from, and the authority (base64 of PEM) that verifies it.
func registryEnv(env *testscript.Env) error {
	endpoints, err := localcloud.ReadEndpoints(bed.CloudDir())
	if err != nil {
		return err
	}
	registry, err := url.Parse(endpoints.Registry)
	if err != nil {
		return fmt.Errorf("reading where the registry is: %w", err)
	}
	authority, err := os.ReadFile(endpoints.CAFile)
	if err != nil {
		return fmt.Errorf("reading the cloud's authority: %w", err)
	}
	env.Setenv("REGISTRY", registry.Host)
	env.Setenv("CA_BUNDLE", base64.StdEncoding.EncodeToString(authority))
	env.Setenv("SINCE", time.Now().Format(time.RFC3339Nano))
	return nil
}

// pushed are the images that are in the registry already: it is one for all stories.
var pushed sync.Map

// push IMAGE PACKAGE puts an image with a program of ours into the registry that servers pull from.
func push(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: push IMAGE PACKAGE")
	}
	build := sync.OnceValue(func() error {
		return pushProgram(ts.MkAbs("program"), args[0], args[1], ts.Getenv("REGISTRY"), ts.Getenv("CA_BUNDLE"))
	})
	once, _ := pushed.LoadOrStore(args[0], build)
	do, ok := once.(func() error)
	if !ok {
		ts.Fatalf("push: %T is no function", once)
	}
	ts.Check(do())
}

func pushProgram(binary, image, pkg, registry, authority string) error {
	build := exec.Command("go", "build", "-trimpath", "-o", binary, pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	content, err := distribution.Program(binary)
	if err != nil {
		return err
	}
	ref, err := name.ParseReference(registry + "/" + image)
	if err != nil {
		return fmt.Errorf("naming image %s: %w", image, err)
	}
	pem, err := base64.StdEncoding.DecodeString(authority)
	if err != nil {
		return fmt.Errorf("reading the cloud's authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return errors.New("the cloud's authority is no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	return remote.Write(ref, content, remote.WithTransport(transport))
}

// mark TEXT... tells how long it took since the mark before, and how much memory is in use.
func mark(ts *testscript.TestScript, _ bool, args []string) {
	since, err := time.Parse(time.RFC3339Nano, ts.Getenv("SINCE"))
	ts.Check(err)
	ts.Setenv("SINCE", time.Now().Format(time.RFC3339Nano))
	if len(args) == 0 {
		return
	}
	memory, err := os.ReadFile("/proc/meminfo")
	ts.Check(err)
	for line := range strings.Lines(string(memory)) {
		if strings.HasPrefix(line, "MemAvailable:") {
			ts.Logf("%.1f s %s; %s", time.Since(since).Seconds(), strings.Join(args, " "), strings.Join(strings.Fields(line), " "))
		}
	}
}

// set NAME COMMAND... sets a variable to what a command prints.
func set(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: set NAME COMMAND...")
	}
	cmd := exec.CommandContext(context.Background(), lookPath(ts, args[1]), args[2:]...)
	cmd.Dir, cmd.Env = filepath.Clean(ts.Getenv("WORK")), environ(ts)
	out, err := cmd.Output()
	ts.Check(err)
	if strings.TrimSpace(string(out)) == "" {
		ts.Fatalf("%s: nothing was printed", strings.Join(args[1:], " "))
	}
	ts.Setenv(args[0], strings.TrimSpace(string(out)))
}
