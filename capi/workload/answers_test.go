package workload_test

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/capi/workload"
)

func TestAnswers(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	address := server.Listener.Addr().String()
	require.True(t, workload.Answers(t.Context(), address, authority))
	require.False(t, workload.Answers(t.Context(), address, nil))
	other := httptest.NewUnstartedServer(nil)
	other.TLS = nil
	other.Start()
	defer other.Close()
	require.False(t, workload.Answers(t.Context(), other.Listener.Addr().String(), authority), "somebody else listens there")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	require.False(t, workload.Answers(t.Context(), closed.Addr().String(), authority))
	require.False(t, workload.Answers(t.Context(), "127.0.0.1", authority))
}
