package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// portGrace is how long a port may stay taken: the children of a server that
// was killed are given back by the kernel a moment after its lock.
const portGrace = 3 * time.Second

// port is where one component listens.
type port struct {
	who    string
	ip     net.IP
	number int
	// instead says how to do without this one.
	instead string
}

func (s *Server) ports() []port {
	cfg := s.plane.Config
	settings := "or change %s in " + s.dir.Path("config.json")
	ports := []port{
		{"the API server", s.plane.BindAddress, cfg.HTTPSPort, "or choose another with --https-port"},
		{"etcd", net.IPv4(127, 0, 0, 1), cfg.EtcdClientPort, fmt.Sprintf(settings, "etcdClientPort")},
		{"etcd's other members", s.plane.AdvertiseAddress, cfg.EtcdPeerPort, "the cluster knows this one"},
	}
	if !s.plane.AdvertiseAddress.IsLoopback() {
		ports = append(ports, port{"machines that join", s.plane.BindAddress, cfg.JoinPort, fmt.Sprintf(settings, "joinPort")})
	}
	return ports
}

// awaitPorts names the port that is not to be had before anything is started:
// a component would say so in its log, if at all.
func (s *Server) awaitPorts(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, portGrace)
	defer cancel()
	for _, p := range s.ports() {
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p port) await(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := p.try()
		if !errors.Is(err, unix.EADDRINUSE) {
			return p.explain(err)
		}
		select {
		case <-ctx.Done():
			return p.explain(err)
		case <-tick.C:
		}
	}
}

func (p port) try() error {
	listener, err := net.Listen("tcp", net.JoinHostPort(p.ip.String(), strconv.Itoa(p.number)))
	if err != nil {
		return err
	}
	return listener.Close()
}

func (p port) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("port %d of %s, for %s, is in use by another program: stop that one, %s", p.number, p.ip, p.who, p.instead)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("%s, for %s, is not an address of this machine: set --bind-address and --advertise-address to some that are", p.ip, p.who)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("port %d of %s, for %s, needs root: %s", p.number, p.ip, p.who, p.instead)
	default:
		return fmt.Errorf("trying port %d of %s, for %s: %w", p.number, p.ip, p.who, err)
	}
}
