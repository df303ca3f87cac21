package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/files"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// Client steers a cloud that another process runs.
type Client struct {
	// Endpoints is where the cloud listens.
	Endpoints Endpoints
}

// direct goes through no proxy, for the admin endpoint is on loopback.
var direct = &http.Client{Transport: &http.Transport{IdleConnTimeout: 30 * time.Second}, Timeout: 5 * time.Minute}

// Dial returns a client for the cloud that runs from the state directory.
func Dial(stateDir string) (*Client, error) {
	endpoints, err := ReadEndpoints(stateDir)
	if err != nil {
		return nil, err
	}
	return &Client{endpoints}, nil
}

// Ledger returns every entry of the ledger.
func (c *Client) Ledger(ctx context.Context) ([]ledger.Entry, error) {
	return get[[]ledger.Entry](ctx, c, "/ledger")
}

// Live returns what exists now.
func (c *Client) Live(ctx context.Context) ([]ledger.Record, error) {
	return get[[]ledger.Record](ctx, c, "/live")
}

// Leftovers describes what a test has left behind.
func (c *Client) Leftovers(ctx context.Context) ([]string, error) {
	return get[[]string](ctx, c, "/leftovers")
}

// Droplets returns all droplets.
func (c *Client) Droplets(ctx context.Context) ([]godo.Droplet, error) {
	return get[[]godo.Droplet](ctx, c, "/droplets")
}

// Vanish destroys a droplet behind the client's back.
func (c *Client) Vanish(ctx context.Context, id int) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/droplets/" + strconv.Itoa(id)})
}

// PowerCycle takes the power from every droplet and server of a name, and gives it back.
func (c *Client) PowerCycle(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodPost, path: "/servers/" + url.PathEscape(name) + "/power-cycle"})
}

// AddFault programs a fault and returns its id.
func (c *Client) AddFault(ctx context.Context, rule fault.Rule) (string, error) {
	var answer idAnswer
	err := c.do(ctx, call{method: http.MethodPost, path: "/faults", body: rule, into: &answer})
	return answer.ID, err
}

// Hits returns every fault that was applied.
func (c *Client) Hits(ctx context.Context) ([]fault.Hit, error) {
	return get[[]fault.Hit](ctx, c, "/hits")
}

// ClearFaults takes one fault away, or all with an empty id.
func (c *Client) ClearFaults(ctx context.Context, id string) error {
	path := "/faults"
	if id != "" {
		path += "/" + url.PathEscape(id)
	}
	return c.do(ctx, call{method: http.MethodDelete, path: path})
}

// StartServer starts a server outside of the droplet API.
func (c *Client) StartServer(ctx context.Context, request server.Request) (server.Info, error) {
	var info server.Info
	err := c.do(ctx, call{method: http.MethodPost, path: "/servers", body: request, into: &info})
	return info, err
}

// StopServer removes such a server.
func (c *Client) StopServer(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/servers/" + url.PathEscape(name)})
}

// Servers returns such servers.
func (c *Client) Servers(ctx context.Context) ([]server.Info, error) {
	return get[[]server.Info](ctx, c, "/servers")
}

// AddToken makes a new API token.
func (c *Client) AddToken(ctx context.Context, name string, readOnly bool) (account.Token, error) {
	var token account.Token
	err := c.do(ctx, call{method: http.MethodPost, path: "/tokens", body: tokenRequest{name, readOnly}, into: &token})
	return token, err
}

// RevokeToken makes the API refuse the token.
func (c *Client) RevokeToken(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodPost, path: "/tokens/" + url.PathEscape(name) + "/revoke"})
}

// PutFile serves content as a file and returns its SHA-256 in hex.
func (c *Client) PutFile(ctx context.Context, name string, content io.Reader) (string, error) {
	var answer digestAnswer
	err := c.do(ctx, call{method: http.MethodPut, path: (&url.URL{Path: "/files/" + name}).EscapedPath(), raw: content, into: &answer})
	return answer.SHA256, err
}

// SetFileFault makes downloads of a file go wrong, or right again with files.FaultNone.
func (c *Client) SetFileFault(ctx context.Context, name string, fault files.Fault) error {
	return c.do(ctx, call{method: http.MethodPut, path: "/filefaults", body: fileFaultRequest{name, fault}})
}

// call is one request to the endpoint.
type call struct {
	method, path string
	body         any       // sent as JSON
	raw          io.Reader // sent as it is
	into         any
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	var value T
	err := c.do(ctx, call{method: http.MethodGet, path: path, into: &value})
	return value, err
}

func (c *Client) do(ctx context.Context, call call) error {
	body := call.raw
	if call.body != nil {
		encoded, err := json.Marshal(call.body)
		if err != nil {
			return fmt.Errorf("encoding request: %w", err)
		}
		body = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, call.method, c.Endpoints.Admin+call.path, body)
	if err != nil {
		return fmt.Errorf("building request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.Endpoints.AdminSecret)
	response, err := direct.Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) { // it ended without taking its endpoints back
		return fmt.Errorf("asking local cloud: nothing listens at %s: %w", c.Endpoints.Admin, ErrNotRunning)
	}
	if err != nil {
		return fmt.Errorf("asking local cloud: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= http.StatusBadRequest {
		message, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return fmt.Errorf("asking local cloud: %s", strings.TrimSpace(string(message)))
	}
	if call.into == nil {
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(call.into); err != nil {
		return fmt.Errorf("parsing answer of local cloud: %w", err)
	}
	return nil
}

// EndpointsFile is the file in the state directory that tells where the
// running cloud listens.
const EndpointsFile = "endpoints.json"

// ErrNotRunning says that no cloud serves from the state directory.
var ErrNotRunning = errors.New("no local cloud is running here")

// Endpoints is where a running cloud listens.
type Endpoints struct {
	API         string `json:"api"`
	Proxy       string `json:"proxy"`
	Files       string `json:"files"`
	Registry    string `json:"registry,omitempty"`
	Admin       string `json:"admin"`
	AdminSecret string `json:"adminSecret"`
	CAFile      string `json:"caFile"`
	PID         int    `json:"pid"`
}

// ReadEndpoints returns where the cloud of the state directory listens; its
// error wraps ErrNotRunning when the cloud says nothing there.
func ReadEndpoints(stateDir string) (Endpoints, error) {
	var endpoints Endpoints
	path := filepath.Join(stateDir, EndpointsFile)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return endpoints, fmt.Errorf("finding local cloud in %s: %w", stateDir, ErrNotRunning)
	}
	if err != nil {
		return endpoints, fmt.Errorf("finding local cloud: %w", err)
	}
	if err := json.Unmarshal(content, &endpoints); err != nil {
		return endpoints, fmt.Errorf("parsing %s: %w", path, err)
	}
	return endpoints, nil
}
