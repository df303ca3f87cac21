package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Fault is a way in which a download goes wrong.
type Fault string

// The faults of downloads; FaultNone is a good download.
const (
	FaultNone      Fault = ""
	FaultMissing   Fault = "404"
	FaultHTML      Fault = "html"      // 200 with a web page, as a login wall does
	FaultWrong     Fault = "wrong"     // as long as the file, but other content
	FaultTruncated Fault = "truncated" // the connection ends half way
	FaultSlow      Fault = "slow"      // a second per step, some ten steps
	FaultOff       Fault = "off"       // the connection is closed without an answer
	FaultError     Fault = "500"
)

// AllFiles is the name that a fault for every file is set with.
const AllFiles = "*"

// slowSteps is in how many pieces a slow download comes.
const slowSteps = 10

// Server is an HTTP handler that serves files. It is safe for concurrent use.
type Server struct {
	mu       sync.Mutex
	files    map[string][]byte
	faults   map[string]Fault
	requests map[string]int
}

var _ http.Handler = (*Server)(nil)

// New returns a server without files.
func New() *Server {
	return &Server{files: map[string][]byte{}, faults: map[string]Fault{}, requests: map[string]int{}}
}

// Put adds or replaces a file and returns the SHA-256 of its content in hex.
func (s *Server) Put(name string, content []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[clean(name)] = slices.Clone(content)
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Delete takes a file away.
func (s *Server) Delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, clean(name))
}

// Names returns the names of all files.
func (s *Server) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.files))
}

// Requests returns how often a file was asked for.
func (s *Server) Requests(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[clean(name)]
}

// SetFault makes downloads of the file go wrong until it is set to FaultNone;
// the name AllFiles stands for every file without a fault of its own.
func (s *Server) SetFault(name string, fault Fault) error {
	switch fault {
	case FaultNone, FaultMissing, FaultHTML, FaultWrong, FaultTruncated, FaultSlow, FaultOff, FaultError:
	default:
		return fmt.Errorf("setting download fault: there is no fault %q", fault)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if name != AllFiles {
		name = clean(name)
	}
	delete(s.faults, name)
	if fault != FaultNone {
		s.faults[name] = fault
	}
	return nil
}

func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// ServeHTTP serves GET and HEAD.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := clean(r.URL.Path)
	content, found, fault := s.lookUp(name)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	if fault == FaultOff {
		panic(http.ErrAbortHandler) // net/http's way to close the connection
	}
	if !found || fault == FaultMissing {
		http.NotFound(w, r)
		return
	}
	s.serveFile(w, r, served{name, content, fault})
}

// served is a file with the way it is served.
type served struct {
	name    string
	content []byte
	fault   Fault
}

func (s *Server) lookUp(name string) ([]byte, bool, Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[name]++
	content, found := s.files[name]
	fault, own := s.faults[name]
	if !own {
		fault = s.faults[AllFiles]
	}
	return content, found, fault
}

func (s *Server) serveFile(w http.ResponseWriter, r *http.Request, file served) {
	content := file.content
	switch file.fault {
	case FaultError:
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	case FaultHTML:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		content = []byte("<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Please sign in to go on.</body></html>\n")
	case FaultWrong:
		content = slices.Clone(content)
		if len(content) > 0 {
			content[len(content)-1] ^= 0xff
		}
	case FaultTruncated:
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:len(content)/2])
		panic(http.ErrAbortHandler)
	case FaultSlow:
		trickle(w, r, content)
		return
	case FaultNone, FaultMissing, FaultOff:
	}
	http.ServeContent(w, r, path.Base(file.name), time.Time{}, bytes.NewReader(content))
}

// trickle sends the content in steps, a second apart, while the client waits.
func trickle(w http.ResponseWriter, r *http.Request, content []byte) {
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	step := len(content)/slowSteps + 1
	for piece := range slices.Chunk(content, step) {
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
		if _, err := w.Write(piece); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
	}
}
