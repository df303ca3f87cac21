package joblog_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-project/drover/cmd/drover/joblog"
)

// logServer answers for the log of pod p over TLS, as an API server does.
func logServer(t *testing.T, answer http.HandlerFunc) kubernetes.Interface {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}})
	require.NoError(t, err)
	return kube
}

// status is an API error as a server writes it.
func status(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, code)
}

func TestStreamAsksForTheDriversContainer(t *testing.T) {
	var asked []string
	kube := logServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		_, _ = io.WriteString(w, "one\ntwo\n")
	})
	p := pod(corev1.PodRunning, "")
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "injected-by-a-mesh"})
	for _, follow := range []bool{false, true} {
		var out bytes.Buffer
		require.NoError(t, joblog.Stream(t.Context(), kube, p, follow, &out))
		require.Equal(t, "one\ntwo\n", out.String())
	}
	require.Equal(t, []string{
		"/api/v1/namespaces/shop/pods/p/log?container=machine",
		"/api/v1/namespaces/shop/pods/p/log?container=machine&follow=true",
	}, asked)
}

// TestStreamIsLive: what was said is shown before more is.
func TestStreamIsLive(t *testing.T) {
	seen := make(chan struct{})
	kube := logServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "first\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-seen:
			_, _ = io.WriteString(w, "second\n")
		case <-r.Context().Done():
		}
	})
	var out bytes.Buffer
	require.NoError(t, joblog.Stream(t.Context(), kube, pod(corev1.PodRunning, ""), true, writerFunc(func(p []byte) (int, error) {
		if out.Len() == 0 {
			close(seen)
		}
		return out.Write(p)
	})))
	require.Equal(t, "first\nsecond\n", out.String())
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

func TestStreamErrors(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		out    string
		err    string
	}{
		"gone": {func(w http.ResponseWriter, _ *http.Request) { status(w, 404, "NotFound", `pods "p" not found`) }, "",
			`reading the log of pod p: pods "p" not found`},
		"forbidden": {func(w http.ResponseWriter, _ *http.Request) {
			status(w, 403, "Forbidden", `User "alice" cannot get pods/log`)
		}, "",
			`reading the log of pod p: User "alice" cannot get pods/log`},
		"not started": {func(w http.ResponseWriter, _ *http.Request) {
			status(w, 400, "BadRequest", `container "machine" in pod "p" is waiting to start: ErrImagePull`)
		}, "", `reading the log of pod p: container "machine" in pod "p" is waiting to start: ErrImagePull`},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half a li")
		}, "half a li", "reading the log of pod p: unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := joblog.Stream(t.Context(), logServer(t, c.answer), pod(corev1.PodRunning, ""), false, &out)
			require.EqualError(t, err, c.err)
			require.Equal(t, c.out, out.String(), "what came is shown")
		})
	}
}

func TestStreamWithoutContainer(t *testing.T) {
	p := pod(corev1.PodRunning, "")
	p.Spec.Containers = nil
	require.EqualError(t, joblog.Stream(t.Context(), nil, p, false, io.Discard), "pod p has no container, and so no log")
}

func TestStreamTellsThatItCouldNotWrite(t *testing.T) {
	kube := logServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "text") })
	full := errors.New("no space left on device")
	err := joblog.Stream(t.Context(), kube, pod(corev1.PodRunning, ""), false, writerFunc(func([]byte) (int, error) { return 0, full }))
	require.ErrorIs(t, err, full)
}

func TestStreamEndsWithItsContext(t *testing.T) {
	kube := logServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "first\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	err := joblog.Stream(ctx, kube, pod(corev1.PodRunning, ""), true, writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil }))
	require.ErrorIs(t, err, context.Canceled)
}
