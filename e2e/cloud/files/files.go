// Package files serves files for download tests, such as driver binaries.
//
// It holds the files in memory. Tests put files in, and switch on for each that
// it is missing or that an HTML page is in its place. Package cloud listens for it.
package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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
	FaultNone    Fault = ""
	FaultMissing Fault = "404"
	FaultHTML    Fault = "html" // 200 with a web page, as a login wall does
)

// Server is an HTTP handler that serves files. It is safe for concurrent use.
type Server struct {
	mu     sync.Mutex
	files  map[string][]byte
	faults map[string]Fault
}

var _ http.Handler = (*Server)(nil)

// New returns a server without files.
func New() *Server {
	return &Server{files: map[string][]byte{}, faults: map[string]Fault{}}
}

// Put adds or replaces a file and returns the SHA-256 of its content in hex.
func (s *Server) Put(name string, content []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[clean(name)] = slices.Clone(content)
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// SetFault makes downloads of the file go wrong until it is set to FaultNone.
func (s *Server) SetFault(name string, fault Fault) error {
	switch fault {
	case FaultNone, FaultMissing, FaultHTML:
	default:
		return fmt.Errorf("setting download fault: unknown fault %q", fault)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[clean(name)] = fault
	return nil
}

func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// ServeHTTP serves GET and HEAD.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := clean(r.URL.Path)
	s.mu.Lock()
	content, found := s.files[name]
	fault := s.faults[name]
	s.mu.Unlock()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	if !found || fault == FaultMissing {
		http.NotFound(w, r)
		return
	}
	if fault == FaultHTML {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		content = []byte("<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Please sign in to go on.</body></html>\n")
	}
	http.ServeContent(w, r, path.Base(name), time.Time{}, bytes.NewReader(content))
}
