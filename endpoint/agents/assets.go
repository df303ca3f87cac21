package agents

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const (
	// downloadTime is the time limit for a server on a slow line to download an agent of 40 MiB.
	downloadTime = 15 * time.Minute
	// pieceTime is the time limit for 32 KiB of it. A client that does not read loses its place.
	pieceTime = 20 * time.Second
)

// LinuxPrefix and an architecture, amd64 or arm64, are the name of an agent for Linux.
const LinuxPrefix = "drover-agent-linux-"

// agentFile is the name of an agent's binary.
var agentFile = regexp.MustCompile(`^drover-agent-(linux|windows)-(amd64|arm64)(\.exe)?$`)

// Assets are the agents' binaries in a directory.
type Assets struct {
	// Sums are the SHA-256 sums of the files by name, lower-case hex.
	Sums map[string]string
	dir  string
}

// LoadAssets hashes the agents in a directory. A directory without agents is an error, because no
// server could be set up.
func LoadAssets(dir string) (*Assets, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the agents' directory: %w", err)
	}
	a := &Assets{dir: dir, Sums: map[string]string{}}
	for _, entry := range entries {
		if !agentFile.MatchString(entry.Name()) || !entry.Type().IsRegular() {
			continue
		}
		if a.Sums[entry.Name()], err = sumOf(filepath.Join(dir, entry.Name())); err != nil {
			return nil, fmt.Errorf("hashing agent %s: %w", entry.Name(), err)
		}
	}
	if len(a.Sums) == 0 {
		return nil, fmt.Errorf("no agent found in %s: it must contain files such as drover-agent-linux-amd64", dir)
	}
	return a, nil
}

func sumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // it was only read
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// ServeHTTP implements http.Handler. The request's path value "name" is the file's name; with the
// suffix .sha256 it requests the file's checksum. Clients can request ranges to resume a broken
// download.
func (a *Assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ofSum := strings.CutSuffix(r.PathValue("name"), ".sha256")
	sum, ok := a.Sums[name]
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case ofSum:
		answer(w, "text/plain", []byte(sum+"\n"))
		return
	}
	w.Header().Set("ETag", `"`+sum+`"`)
	http.ServeFile(&inPieces{ResponseWriter: w, end: time.Now().Add(downloadTime)}, r, filepath.Join(a.dir, name))
}

// inPieces is an answer that ends when the client does not take a piece of it in time.
type inPieces struct {
	http.ResponseWriter
	end time.Time
}

// Write implements http.ResponseWriter.
func (p *inPieces) Write(piece []byte) (int, error) {
	deadline := time.Now().Add(pieceTime)
	if p.end.Before(deadline) {
		deadline = p.end
	}
	if err := http.NewResponseController(p.ResponseWriter).SetWriteDeadline(deadline); err != nil {
		return 0, fmt.Errorf("this connection does not support a download: %w", err)
	}
	return p.ResponseWriter.Write(piece)
}

// download gives each download one of few places.
func (g *guard) download(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		permit := g.downloads.TryAcquire(visitorOf(r.Context()).address, 1, func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Now()) })
		if permit == nil {
			busy(w)
			return
		}
		defer permit.Release()
		next.ServeHTTP(w, r)
	})
}
