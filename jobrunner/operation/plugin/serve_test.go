package plugin_test

import (
	"bufio"
	"io"
	"net/rpc"
	"os"
	"strings"
	"testing"

	"github.com/rancher/machine/drivers/none"
	rpcdriver "github.com/rancher/machine/libmachine/drivers/rpc"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/jobrunner/operation/plugin"
)

// TestServe_until_it_is_closed serves on a loopback address to whom it tells, and ends when it is told to.
func TestServe_until_it_is_closed(t *testing.T) {
	t.Setenv("MACHINE_DEBUG", "")
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- plugin.Serve(none.NewDriver("m1", ""), writer) }()
	address, err := bufio.NewReader(reader).ReadString('\n')
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(address, "127.0.0.1:"), address)
	client, err := rpc.DialHTTP("tcp", strings.TrimSpace(address))
	require.NoError(t, err)
	for _, service := range []string{rpcdriver.RPCServiceNameV0, rpcdriver.RPCServiceNameV1} {
		version := 0
		require.NoError(t, client.Call(service+rpcdriver.GetVersionMethod, struct{}{}, &version))
		require.Equal(t, 1, version)
		require.NoError(t, client.Call(service+rpcdriver.HeartbeatMethod, struct{}{}, nil))
	}
	require.Empty(t, os.Getenv("MACHINE_DEBUG"), "or the vSphere driver prints passwords")
	client.Go(rpcdriver.RPCServiceNameV1+rpcdriver.CloseMethod, struct{}{}, nil, nil)
	require.NoError(t, <-ended)
	_, err = rpc.DialHTTP("tcp", strings.TrimSpace(address))
	require.Error(t, err, "nobody listens any more")
}
