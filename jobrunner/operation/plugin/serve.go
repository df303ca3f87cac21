package plugin

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/rpc"
	"time"

	"github.com/rancher/machine/libmachine/drivers"
	rpcdriver "github.com/rancher/machine/libmachine/drivers/rpc"
	"github.com/rancher/machine/libmachine/log"
)

// silence is how long a client may be silent before it is taken for dead.
const silence = 10 * time.Second

// Serve serves a driver to one client, and writes its address as a line to out. It returns when the
// client closes the driver or is silent for too long. Unlike libmachine's own server it does not
// set MACHINE_DEBUG, with which the vSphere driver prints every request and response including the
// password.
func Serve(driver drivers.Driver, out io.Writer) error {
	log.SetDebug(true)
	served := rpcdriver.NewRPCServerDriver(driver)
	registry := rpc.NewServer()
	err := errors.Join(registry.RegisterName(rpcdriver.RPCServiceNameV0, served), registry.RegisterName(rpcdriver.RPCServiceNameV1, served))
	if err != nil {
		return fmt.Errorf("registering the driver: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening for the client: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle(rpc.DefaultRPCPath, registry)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: silence}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return fmt.Errorf("printing the driver's address: %w", err)
	}
	for {
		select {
		case <-served.CloseCh:
			return nil
		case <-served.HeartbeatCh:
		case <-time.After(silence):
			return fmt.Errorf("the client sent no request for %s", silence)
		}
	}
}
