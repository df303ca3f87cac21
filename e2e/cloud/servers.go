package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"golang.org/x/crypto/ssh"

	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// ServerOptions asks for a server outside of the droplet API.
type ServerOptions = server.Request

// Server is a server outside of the droplet API.
type Server = server.Info

var (
	userName   = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
	serverName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

// ownServer is a server that a test started, not a client of the API.
type ownServer struct {
	ID   int         `json:"id"`
	Spec server.Spec `json:"spec"`
}

// StartServer starts a server with the given login and keys, for tests of
// drivers that take over what already runs.
func (c *Cloud) StartServer(ctx context.Context, request ServerOptions) (Server, error) {
	if err := checkServer(request); err != nil {
		return Server{}, fmt.Errorf("starting server: %w", err)
	}
	own, err := c.reserveServer(request)
	if err != nil {
		return Server{}, err
	}
	if err := c.record(ledger.OpCreated, own); err != nil {
		return Server{}, errors.Join(err, c.StopServer(context.WithoutCancel(ctx), request.Name))
	}
	if err := c.backend.Create(ctx, own.Spec); err != nil {
		return Server{}, errors.Join(fmt.Errorf("starting server %s: %w", request.Name, err), c.StopServer(context.WithoutCancel(ctx), request.Name))
	}
	return c.info(own), nil
}

func checkServer(request ServerOptions) error {
	if !serverName.MatchString(request.Name) {
		return fmt.Errorf("%q is no host name", request.Name)
	}
	if request.User != "" && !userName.MatchString(request.User) {
		return fmt.Errorf("%q is no user name", request.User)
	}
	for i, key := range request.Keys {
		if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(key)); err != nil { // not shown: it may be a private one
			return fmt.Errorf("key %d is no public key in authorized_keys form", i+1)
		}
	}
	return nil
}

func (c *Cloud) reserveServer(request ServerOptions) (*ownServer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.servers[request.Name]; taken {
		return nil, fmt.Errorf("starting server: the name %s is taken", request.Name)
	}
	given, err := c.network.Allocate()
	if err != nil {
		return nil, err
	}
	id := c.nextID
	c.nextID++
	unique := fmt.Sprintf("s%d-%d", c.slot(), id)
	own := &ownServer{ID: id, Spec: server.Spec{
		Name: unique, Hostname: request.Name, InstanceID: unique, Public: given.Public,
		Keys: request.Keys, User: request.User, UserData: request.UserData,
	}}
	c.servers[request.Name] = own
	return own, nil
}

// StopServer removes a server started by StartServer.
func (c *Cloud) StopServer(ctx context.Context, name string) error {
	c.mu.Lock()
	own, ok := c.servers[name]
	delete(c.servers, name) // who stops it at the same time finds none
	c.mu.Unlock()
	if !ok {
		return fmt.Errorf("stopping server %s: %w", name, server.ErrNotFound)
	}
	if err := c.backend.Destroy(ctx, own.Spec.Name); err != nil {
		c.mu.Lock()
		c.servers[name] = own
		c.mu.Unlock()
		return fmt.Errorf("stopping server %s: %w", name, err)
	}
	c.network.Release(own.Spec.Public)
	return c.record(ledger.OpRemoved, own)
}

// Servers returns the servers started by StartServer, by name.
func (c *Cloud) Servers() []Server {
	c.mu.Lock()
	names := slices.Sorted(maps.Keys(c.servers))
	found := make([]*ownServer, 0, len(names))
	for _, name := range names {
		found = append(found, c.servers[name])
	}
	c.mu.Unlock()
	infos := make([]Server, 0, len(found))
	for _, own := range found {
		infos = append(infos, c.info(own))
	}
	return infos
}

func (c *Cloud) info(own *ownServer) Server {
	return Server{
		Name: own.Spec.Hostname, Address: own.Spec.Public, User: own.Spec.User,
		HostKey: c.hostKey(own.Spec.Name), Running: c.backend.Running(own.Spec.Name),
	}
}

func (c *Cloud) record(op ledger.Op, own *ownServer) error {
	data, err := json.Marshal(own)
	if err != nil {
		return fmt.Errorf("encoding server: %w", err)
	}
	return c.ledger.Append(ledger.Entry{
		Op: op, Kind: ledger.KindServer, ID: strconv.Itoa(own.ID), Name: own.Spec.Hostname, Data: data,
	})
}

// adoptServers takes over the servers that the ledger says are there.
func (c *Cloud) adoptServers(ctx context.Context) error {
	for _, record := range c.ledger.Records(ledger.KindServer) {
		own := &ownServer{}
		if err := json.Unmarshal(record.Data, own); err != nil {
			return fmt.Errorf("rebuilding server %s from the ledger: %w", record.Name, err)
		}
		c.nextID = max(c.nextID, own.ID+1)
		if !record.IsLive() {
			continue
		}
		c.servers[record.Name] = own
		c.network.Claim(own.Spec.Public)
		if err := c.backend.Adopt(ctx, own.Spec, true); err != nil {
			c.opts.Log.Warn("server lost in a restart", "name", record.Name, "error", err)
			if err := c.StopServer(ctx, record.Name); err != nil {
				return err
			}
		}
	}
	return nil
}
