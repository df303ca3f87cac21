package sshtest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

// hangUpDelay is how long a command's output is still read after the client hung up.
const hangUpDelay = time.Second

// Server is a running SSH server.
type Server struct {
	// Host and Port it listens on.
	Host string
	Port int
	// HostKey is the key it shows.
	HostKey ssh.PublicKey

	mutex      sync.Mutex
	open       map[net.Conn]bool
	ended      bool
	authorized ssh.PublicKey
	commands   []string
	sizes      []string
	config     *ssh.ServerConfig
	env        []string
	dir        string
}

// Options of Start; the zero value is fine.
type Options struct {
	// AuthorizedKey is an authorized_keys line; any key is accepted when empty.
	AuthorizedKey []byte
	// Env is added to the environment of commands.
	Env []string
	// Dir is the user's home directory, in which commands and SFTP begin; the present one when
	// empty.
	Dir string
}

// Start serves on loopback until the test ends.
func Start(tb testing.TB, options Options) *Server {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(tb, err)
	hostKey, err := ssh.NewSignerFromKey(private)
	require.NoError(tb, err)
	address, ok := listener.Addr().(*net.TCPAddr)
	require.True(tb, ok)
	server := &Server{Host: "127.0.0.1", Port: address.Port, HostKey: hostKey.PublicKey(), env: options.Env, dir: options.Dir, open: map[net.Conn]bool{}}
	if len(options.AuthorizedKey) > 0 {
		server.Authorize(tb, options.AuthorizedKey)
	}
	server.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		server.mutex.Lock()
		authorized := server.authorized
		server.mutex.Unlock()
		if authorized != nil && !bytes.Equal(key.Marshal(), authorized.Marshal()) {
			return nil, errors.New("this key is not authorized")
		}
		return nil, nil
	}}
	server.config.AddHostKey(hostKey)
	var connections sync.WaitGroup
	tb.Cleanup(func() {
		_ = listener.Close()
		server.mutex.Lock()
		server.ended = true // connections that come as it happens are closed too
		for connection := range server.open {
			_ = connection.Close()
		}
		server.mutex.Unlock()
		connections.Wait()
	})
	connections.Go(func() { server.accept(listener, &connections) })
	return server
}

// Authorize makes the key of an authorized_keys line the only accepted one.
func (s *Server) Authorize(tb testing.TB, line []byte) {
	tb.Helper()
	key, _, _, _, err := ssh.ParseAuthorizedKey(line)
	require.NoError(tb, err)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.authorized = key
}

// Commands are the command lines that were run so far.
func (s *Server) Commands() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return append([]string(nil), s.commands...)
}

// Sizes are the terminal sizes that clients announced, as columns x rows.
func (s *Server) Sizes() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return append([]string(nil), s.sizes...)
}

func (s *Server) accept(listener net.Listener, connections *sync.WaitGroup) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		s.mutex.Lock()
		ended := s.ended
		if !ended {
			s.open[connection] = true
		}
		s.mutex.Unlock()
		if ended { // the test is over
			_ = connection.Close()
			return
		}
		connections.Go(func() { s.serve(connection) })
	}
}

func (s *Server) serve(connection net.Conn) {
	_, channels, requests, err := ssh.NewServerConn(connection, s.config)
	if err != nil {
		_ = connection.Close()
		return
	}
	go ssh.DiscardRequests(requests)
	// As with sshd, the end of a session does not end its command. The end of the connection does,
	// so that the command does not outlive the test.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for incoming := range channels {
		if incoming.ChannelType() != "session" {
			_ = incoming.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		channel, requests, err := incoming.Accept()
		if err == nil {
			go s.session(ctx, channel, requests)
		}
	}
}

func (s *Server) session(ctx context.Context, channel ssh.Channel, requests <-chan *ssh.Request) {
	signals := make(chan syscall.Signal, 1)
	for request := range requests {
		switch request.Type {
		case "exec":
			var payload struct{ Line string }
			_ = ssh.Unmarshal(request.Payload, &payload)
			_ = request.Reply(true, nil)
			go s.run(ctx, channel, payload.Line, signals)
		case "shell":
			_ = request.Reply(true, nil)
			go s.run(ctx, channel, "exec sh", signals)
		case "subsystem":
			var payload struct{ Name string }
			_ = ssh.Unmarshal(request.Payload, &payload)
			_ = request.Reply(payload.Name == "sftp", nil)
			if payload.Name == "sftp" {
				go s.serveFiles(channel)
			}
		case "pty-req":
			var payload struct {
				Term          string
				Columns, Rows uint32
				W, H          uint32
				Modes         string
			}
			_ = ssh.Unmarshal(request.Payload, &payload)
			s.resized(payload.Columns, payload.Rows)
			_ = request.Reply(true, nil)
		case "signal":
			var payload struct{ Signal string }
			_ = ssh.Unmarshal(request.Payload, &payload)
			signals <- map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM}[payload.Signal]
		case "window-change":
			var payload struct{ Columns, Rows, W, H uint32 }
			_ = ssh.Unmarshal(request.Payload, &payload)
			s.resized(payload.Columns, payload.Rows)
		default:
			_ = request.Reply(request.Type == "env", nil)
		}
	}
}

func (s *Server) resized(columns, rows uint32) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.sizes = append(s.sizes, fmt.Sprintf("%dx%d", columns, rows))
}

func (s *Server) run(ctx context.Context, channel ssh.Channel, line string, signals <-chan syscall.Signal) {
	s.mutex.Lock()
	s.commands = append(s.commands, line)
	s.mutex.Unlock()
	command := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	command.WaitDelay = hangUpDelay
	command.Dir = s.dir
	command.Env = append(command.Environ(), s.env...)
	stdin, err := command.StdinPipe()
	if err != nil {
		_ = channel.Close()
		return
	}
	command.Stdout, command.Stderr = channel, channel.Stderr()
	go func() { _, _ = io.Copy(stdin, channel); _ = stdin.Close() }()
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		sendExit(channel, err)
		_ = channel.Close()
		return
	}
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case signal := <-signals:
				_ = syscall.Kill(-command.Process.Pid, signal)
			case <-ended:
				return
			}
		}
	}()
	err = command.Wait()
	close(ended)
	sendExit(channel, err)
	_ = channel.Close()
}

// sendExit sends the end of a command: its status, or the signal that ended it.
func sendExit(channel ssh.Channel, err error) {
	status := uint32(0)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() < 0:
		_, _ = channel.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Signal    string
			Core      bool
			Text, Tag string
		}{Signal: "KILL", Text: exit.Error()}))
		return
	case exit != nil:
		status = uint32(exit.ExitCode())
	case err != nil:
		status = 255
	}
	_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
}

func (s *Server) serveFiles(channel ssh.Channel) {
	server, err := sftp.NewServer(channel, sftp.WithServerWorkingDirectory(s.dir))
	if err == nil {
		err = server.Serve()
	}
	if err != nil && !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "closed") {
		_, _ = fmt.Fprintln(channel.Stderr(), err)
	}
	_ = channel.Close()
}
