package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// secrets are markers by what they are, and the places where they were seen.
type secrets struct {
	mu    sync.Mutex
	known map[string]string
	forms map[string][][]byte
	seen  map[string]bool
}

func newSecrets() *secrets {
	return &secrets{known: map[string]string{}, forms: map[string][][]byte{}, seen: map[string]bool{}}
}

// remember makes a text one that is searched for from now on.
func (s *secrets) remember(name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[name], s.forms[name] = text, slices.Concat([][]byte{[]byte(text)}, inBase64(text))
}

// inBase64 is what is the same of a text in base64 whatever stands before and after it: that depends on where in a group of three bytes it begins.
func inBase64(text string) [][]byte {
	var forms [][]byte
	for before := range 3 {
		encoded := base64.StdEncoding.EncodeToString(append(make([]byte, before), text...))
		forms = append(forms, []byte(encoded[(before*8+5)/6:(before+len(text))*8/6]))
	}
	return forms
}

func TestInBase64(t *testing.T) {
	for before := range 7 {
		for after := range 4 {
			encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + "marker-of-ours" + strings.Repeat("y", after)))
			require.True(t, slices.ContainsFunc(inBase64("marker-of-ours"), func(form []byte) bool { return strings.Contains(encoded, string(form)) }))
		}
	}
}

// in is which secrets a content shows, plain or in base64.
func (s *secrets) in(content []byte) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for name, forms := range s.forms {
		if slices.ContainsFunc(forms, func(form []byte) bool { return bytes.Contains(content, form) }) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// search notes which secrets a place shows.
func (s *secrets) search(place string, content []byte) {
	for _, name := range s.in(content) {
		s.mu.Lock()
		s.seen[name+" in "+place] = true
		s.mu.Unlock()
	}
}

// places are those where a secret was seen.
func (s *secrets) places() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.seen))
}

// searchObjects looks at every object of every kind but Secrets, with its managed fields; kubectl is how it is asked.
func (s *secrets) searchObjects(kubectl func(args ...string) []byte) error {
	kinds := strings.Fields(string(kubectl("api-resources", "--verbs=list", "-o", "name")))
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind == "secrets" })
	objects, err := read(kubectl("get", strings.Join(kinds, ","), "--all-namespaces", "--show-managed-fields", "-o", "json"))
	if err != nil {
		return err
	}
	if len(kinds) < 60 || len(objects) < 100 {
		return fmt.Errorf("only %d objects of %d kinds are found", len(objects), len(kinds))
	}
	for _, object := range objects {
		s.search(object.Kind+" "+object.Metadata.Name, object.raw)
	}
	return nil
}

// object is one as kubectl prints it.
type object struct {
	Kind     string
	Metadata struct{ Namespace, Name string }
	Data     map[string]json.RawMessage
	raw      []byte
}

// read reads a list of objects, before and after which kubectl may have complained.
func read(list []byte) ([]object, error) {
	var items struct{ Items []json.RawMessage }
	list = list[max(0, bytes.IndexByte(list, '{')):]
	if err := json.NewDecoder(bytes.NewReader(list)).Decode(&items); err != nil {
		return nil, fmt.Errorf("reading a list of objects: %w: %.300s", err, list)
	}
	objects := make([]object, len(items.Items))
	for i, item := range items.Items {
		if err := json.Unmarshal(item, &objects[i]); err != nil {
			return nil, fmt.Errorf("reading an object: %w", err)
		}
		objects[i].raw = item
	}
	return objects, nil
}

// holders are the Secrets that hold a secret, however it is packed.
func (s *secrets) holders(name string, kubectl func(args ...string) []byte) ([]string, error) {
	objects, err := read(kubectl("get", "secrets", "--all-namespaces", "-o", "json"))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, object := range objects {
		for _, value := range object.Data {
			var content []byte
			if err := json.Unmarshal(value, &content); err != nil {
				return nil, fmt.Errorf("reading Secret %s: %w", object.Metadata.Name, err)
			}
			if s.holds(content, name, 4) && !slices.Contains(found, object.Metadata.Name) {
				found = append(found, object.Metadata.Name)
			}
		}
	}
	return found, nil
}

var base64Run = regexp.MustCompile(`[A-Za-z0-9+/]{24,}={0,2}`)

// holds also looks into what is compressed, and in base64 within a content.
func (s *secrets) holds(content []byte, name string, depth int) bool {
	if slices.Contains(s.in(content), name) {
		return true
	}
	if depth == 0 {
		return false
	}
	if reader, err := gzip.NewReader(bytes.NewReader(content)); err == nil {
		inside, _ := io.ReadAll(io.LimitReader(reader, maxSearched))
		return s.holds(inside, name, depth-1)
	}
	for _, run := range base64Run.FindAll(content, -1) {
		if inside, err := base64.StdEncoding.DecodeString(string(run)); err == nil && s.holds(inside, name, depth-1) {
			return true
		}
	}
	return false
}

// watchProcesses looks at the command line and the environment of every process, those on servers among them, from its beginning on, until it is told to
// stop. The driver's own process has the credential in its environment, for that is how it is told.
func (s *secrets) watchProcesses(ctx context.Context, every time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		seen := map[string]int{}
		for ticker := time.NewTicker(every); ; {
			seen = s.searchProcesses(seen)
			select {
			case <-ctx.Done():
				ticker.Stop()
				return
			case <-ticker.C:
			}
		}
	}()
	return func() { cancel(); <-done }
}

const (
	// settled is how often a process is looked at without a pause: it begins as a copy of its parent.
	settled = 20
	// seldom is every which time it is looked at afterwards, for some become another program later.
	seldom = 50
)

// searchProcesses looks at the processes that are there now and returns how often each was seen.
func (s *secrets) searchProcesses(seen map[string]int) map[string]int {
	now := map[string]int{}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid := entry.Name()
		if pid[0] < '1' || pid[0] > '9' {
			continue
		}
		if now[pid] = seen[pid] + 1; now[pid] < settled || now[pid]%seldom == 0 {
			s.searchProcess(filepath.Join("/proc", pid))
		}
	}
	return now
}

func TestSearchProcesses(t *testing.T) {
	token := rand.Text()
	sleeper := exec.CommandContext(t.Context(), "sleep", "60")
	sleeper.Env = []string{"TOKEN=" + token}
	require.NoError(t, sleeper.Start())
	t.Cleanup(func() { _ = sleeper.Wait() }) // the test's context has ended it
	pid := strconv.Itoa(sleeper.Process.Pid)
	for before, found := range map[int]bool{0: true, settled - 2: true, settled: false, seldom - 2: false, seldom - 1: true} {
		s := newSecrets()
		s.remember("token", token)
		require.Equal(t, before+1, s.searchProcesses(map[string]int{pid: before})[pid])
		require.Equal(t, found, slices.Contains(s.places(), "token in the environment of sleep"), "seen %d times before", before)
	}
}

func (s *secrets) searchProcess(dir string) {
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return
	}
	environment, _ := os.ReadFile(filepath.Join(dir, "environ"))
	program, _, _ := bytes.Cut(line, []byte{0})
	s.search("the arguments of "+string(program), line)
	if !bytes.Contains(environment, []byte("MACHINE_PLUGIN_TOKEN=")) {
		s.search("the environment of "+string(program), environment)
	}
}
