package cloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/drover-project/drover/e2e/cloud/account"
)

// ErrRunning says that another process serves from the state directory.
var ErrRunning = errors.New("another local cloud uses this state directory")

// stateDir is the directory that everything durable is in; an empty path
// keeps nothing.
type stateDir struct {
	dir    string
	lock   *os.File
	saving sync.Mutex // an older list of tokens never replaces a newer one
}

func openState(dir string) (*stateDir, error) {
	if dir == "" {
		return &stateDir{}, nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("resolving state directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making state directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking state directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", dir, ErrRunning), lock.Close())
	}
	return &stateDir{dir: dir, lock: lock}, nil
}

func (s *stateDir) path(name string) string {
	if s.dir == "" {
		return ""
	}
	return filepath.Join(s.dir, name)
}

func (s *stateDir) close() error {
	if s.lock == nil {
		return nil
	}
	err := os.Remove(s.path(endpointsFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	lock := s.lock
	s.lock = nil // closing again finds nothing to do
	return errors.Join(err, lock.Close())
}

// loadTokens returns the tokens kept from before, the given ones and always
// the default one.
func (s *stateDir) loadTokens(given []account.Token) (*account.Tokens, error) {
	var kept []account.Token
	if err := s.read("tokens.json", &kept); err != nil {
		return nil, err
	}
	tokens := account.NewTokens(append(kept, given...)...)
	if tokens.Secret(DefaultToken) == "" {
		tokens.Set(account.Token{Name: DefaultToken, Secret: account.NewSecret()})
	}
	return tokens, s.saveTokens(tokens)
}

func (s *stateDir) saveTokens(tokens *account.Tokens) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	return s.write("tokens.json", tokens.List())
}

func (s *stateDir) read(name string, into any) error {
	if s.dir == "" {
		return nil
	}
	content, err := os.ReadFile(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading state: %w", err)
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("parsing %s: %w", s.path(name), err)
	}
	return nil
}

func (s *stateDir) write(name string, value any) error {
	if s.dir == "" {
		return nil
	}
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", name, err)
	}
	fresh := s.path(name) + ".new"
	if err := os.WriteFile(fresh, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing state: %w", err)
	}
	if err := os.Rename(fresh, s.path(name)); err != nil {
		return fmt.Errorf("writing state: %w", err)
	}
	return nil
}
