package cloud

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"golang.org/x/crypto/ssh"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/server"
)

var (
	userName   = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
	serverName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

// StartServer starts a server with the given login and keys, for tests of drivers that take over an
// existing server.
func (c *Cloud) StartServer(ctx context.Context, request server.Request) (server.Info, error) {
	spec, err := c.reserveServer(request)
	if err != nil {
		return server.Info{}, fmt.Errorf("starting server: %w", err)
	}
	c.Ledger.Append(ledger.Entry{Op: ledger.OpCreated, Kind: ledger.KindServer, ID: spec.Name, Name: request.Name})
	if err := c.backend.Create(ctx, spec); err != nil {
		_ = c.StopServer(context.WithoutCancel(ctx), request.Name) // the first error says more
		return server.Info{}, fmt.Errorf("starting server %s: %w", request.Name, err)
	}
	return c.info(spec), nil
}

func (c *Cloud) reserveServer(request server.Request) (server.Spec, error) {
	if !serverName.MatchString(request.Name) {
		return server.Spec{}, fmt.Errorf("%q is not a valid host name", request.Name)
	}
	if request.User != "" && !userName.MatchString(request.User) {
		return server.Spec{}, fmt.Errorf("%q is not a valid user name", request.User)
	}
	for i, key := range request.Keys {
		if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(key)); err != nil { // not shown: it may be a private one
			return server.Spec{}, fmt.Errorf("key %d is not a public key in authorized_keys form", i+1)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.servers[request.Name]; taken {
		return server.Spec{}, fmt.Errorf("the name %s is taken", request.Name)
	}
	given, err := c.network.Allocate()
	if err != nil {
		return server.Spec{}, err
	}
	c.lastID++
	unique := fmt.Sprintf("s%d", c.lastID)
	spec := server.Spec{
		Name: unique, Hostname: request.Name, InstanceID: unique, Public: given.Public,
		Keys: request.Keys, User: request.User, UserData: request.UserData,
	}
	c.servers[request.Name] = spec
	return spec, nil
}

// StopServer removes a server started by StartServer.
func (c *Cloud) StopServer(ctx context.Context, name string) error {
	c.mu.Lock()
	spec, ok := c.servers[name]
	delete(c.servers, name) // a concurrent StopServer does not find it
	c.mu.Unlock()
	if !ok {
		return fmt.Errorf("stopping server %s: %w", name, server.ErrNotFound)
	}
	if err := c.backend.Destroy(ctx, spec.Name); err != nil {
		c.mu.Lock()
		c.servers[name] = spec
		c.mu.Unlock()
		return fmt.Errorf("stopping server %s: %w", name, err)
	}
	c.network.Release(spec.Public)
	c.Ledger.Append(ledger.Entry{Op: ledger.OpRemoved, Kind: ledger.KindServer, ID: spec.Name, Name: name})
	return nil
}

// PowerCycle cuts the power of every droplet and server of a name, and restores it; their disks are
// kept.
func (c *Cloud) PowerCycle(ctx context.Context, name string) error {
	if name == "" { // for an empty name the account lists every droplet
		return errors.New("switching servers off and on: a name must be given")
	}
	if c.real == nil {
		return errors.New("switching servers off and on: simulated ones have no power")
	}
	var found []string
	c.mu.Lock()
	if spec, ok := c.servers[name]; ok {
		found = append(found, spec.Name)
	}
	c.mu.Unlock()
	for _, droplet := range c.Account.Droplets(name, "") {
		found = append(found, account.ServerName(droplet.ID))
	}
	if len(found) == 0 {
		return fmt.Errorf("switching %s off and on: %w", name, server.ErrNotFound)
	}
	for _, server := range found {
		if err := c.real.PowerCycle(ctx, server); err != nil {
			return err
		}
	}
	return nil
}

// Servers returns the servers started by StartServer, by name.
func (c *Cloud) Servers() []server.Info {
	c.mu.Lock()
	servers := maps.Clone(c.servers)
	c.mu.Unlock()
	infos := []server.Info{}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		infos = append(infos, c.info(servers[name]))
	}
	return infos
}

func (c *Cloud) info(spec server.Spec) server.Info {
	return server.Info{Name: spec.Hostname, Address: spec.Public, User: spec.User, Running: c.backend.Running(spec.Name)}
}
