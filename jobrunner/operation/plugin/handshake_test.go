package plugin

import (
	"bytes"
	"encoding/gob"
	"errors"
	"io"
	"net/rpc"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rancher/machine/libmachine/mcnflag"
	"github.com/stretchr/testify/require"
)

func TestIsLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "127.255.255.254:65535": true, "[::1]:8080": true, "[::ffff:127.0.0.1]:80": true,
		"": false, "127.0.0.1": false, "127.0.0.1:": false, "127.0.0.1:0": false, "127.0.0.1:65536": false, "127.0.0.1:http": false, "localhost:80": false,
		"0.0.0.0:80": false, "[::]:80": false, "198.18.0.1:80": false, "169.254.169.254:80": false, "[::1%lo]:80": false, ":80": false,
		"127.0.0.1:80 and more": false, "127.0.0.1:80@example.com": false, "http://127.0.0.1:80": false, "127.1:80": false, "0177.0.0.1:80": false,
	} {
		require.Equal(t, want, isLoopback(address), address)
	}
}

func TestCopyOutput(t *testing.T) {
	for name, c := range map[string]struct{ printed, address, out string }{
		"an address":           {"127.0.0.1:1\n", "127.0.0.1:1", ""},
		"an address and more":  {"127.0.0.1:1\nhello\nworld", "127.0.0.1:1", "hello\nworld"},
		"with a carriage":      {"127.0.0.1:1\r\nx", "127.0.0.1:1", "x"},
		"an empty line":        {"\nx", "", "x"},
		"a line without end":   {"hello", "", "hello"},
		"nothing":              {"", "", ""},
		"a line without limit": {strings.Repeat("x", 3*maxLine), "", strings.Repeat("x", 3*maxLine)},
	} {
		t.Run(name, func(t *testing.T) {
			address := make(chan string, 1)
			var out bytes.Buffer
			copyOutput(strings.NewReader(c.printed), address, &out)
			require.Equal(t, c.out, out.String())
			require.Equal(t, c.address, <-address)
		})
	}
}

// stream is a connection whose other side has said all in advance; it is heard when the first question is asked.
type stream struct {
	said  io.Reader
	asked chan struct{}
	once  *sync.Once
}

// speaking is a driver that says this, whatever it is asked.
func speaking(said []byte) *Process {
	s := stream{said: bytes.NewReader(said), asked: make(chan struct{}), once: &sync.Once{}}
	return &Process{client: rpc.NewClient(s), ended: make(chan struct{})}
}

func (s stream) Read(p []byte) (int, error) {
	<-s.asked
	return s.said.Read(p)
}

func (s stream) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.asked) })
	return len(p), nil
}

func (s stream) Close() error {
	s.once.Do(func() { close(s.asked) })
	return nil
}

// answer is what a good driver says to its first question.
func answer(reply any) []byte {
	var out bytes.Buffer
	encoder := gob.NewEncoder(&out)
	_ = encoder.Encode(rpc.Response{})
	_ = encoder.Encode(reply)
	return out.Bytes()
}

// FuzzHandshake: whatever the program at the other side says, asking it ends, with an answer or an error that says whose it is.
func FuzzHandshake(f *testing.F) {
	for _, reply := range []any{1, 2, []mcnflag.Flag{&mcnflag.StringFlag{Name: "x", Value: "y"}, &mcnflag.IntFlag{Name: "z"}}, []byte(`{"a":1}`), "198.18.0.1"} {
		f.Add(answer(reply))
	}
	f.Add(answer(1)[:40])
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add([]byte{0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, said []byte) {
		for _, ask := range []func(*Process) error{
			func(p *Process) error { return p.negotiate(t.Context()) },
			func(p *Process) error { _, err := p.Flags(t.Context()); return err },
			func(p *Process) error { _, err := p.Record(t.Context()); return err },
			func(p *Process) error { _, err := p.State(t.Context()); return err },
			func(p *Process) error { _, err := p.Login(t.Context()); return err },
		} {
			p := speaking(said)
			requireOurs(t, ask(p))
			if p.stop != nil {
				p.stop()
			}
			require.NoError(t, p.client.Close())
		}
	})
}

// TestAnswers: what the seeds of FuzzHandshake say is understood.
func TestAnswers(t *testing.T) {
	p := speaking(answer(1))
	require.NoError(t, p.negotiate(t.Context()))
	p.stop()
	require.ErrorContains(t, speaking(answer(2)).negotiate(t.Context()), "it speaks version 2")
	flags, err := speaking(answer([]mcnflag.Flag{&mcnflag.StringFlag{Name: "x"}})).Flags(t.Context())
	require.NoError(t, err)
	require.Len(t, flags, 1)
	record, err := speaking(answer([]byte("{}"))).Record(t.Context())
	require.NoError(t, err)
	require.Equal(t, "{}", string(record))
}

func requireOurs(t *testing.T, err error) {
	t.Helper()
	var own *Error
	require.True(t, err == nil || errors.Is(err, ErrUnresponsive) || errors.As(err, &own), "%v", err)
}

// TestHeartbeat_ends with the driver's process, and with Kill.
func TestHeartbeat_ends(t *testing.T) {
	p := speaking(answer(1))
	require.NoError(t, p.negotiate(t.Context()))
	ended := make(chan struct{})
	go func() {
		p.heartbeat(t.Context())
		close(ended)
	}()
	close(p.ended)
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on without a driver")
	}
	p.stop()
}
