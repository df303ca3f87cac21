package cloud

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/digitalocean/godo"
	"golang.org/x/oauth2"

	"github.com/drover-project/drover/e2e/cloud/rest"
	"github.com/drover-project/drover/e2e/distribution"
	"github.com/drover-project/drover/endpoint/certificate"
)

// Environment returns the variables that lead an unmodified driver to the cloud.
func (c *Cloud) Environment() []string {
	return []string{"HTTPS_PROXY=" + c.Endpoints.Proxy, "SSL_CERT_FILE=" + c.CAFile()}
}

// Client returns a client of the API with the token's secret, connected as
// drivers are: to the real API's name, through the proxy.
func (c *Cloud) Client(secret string) *godo.Client {
	proxyURL, err := url.Parse(c.Endpoints.Proxy)
	roots := x509.NewCertPool()
	roots.AddCert(c.authority.Leaf)
	transport := &http.Transport{
		Proxy:           func(*http.Request) (*url.URL, error) { return proxyURL, err },
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}
	source := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: secret})
	return godo.NewClient(&http.Client{Transport: &oauth2.Transport{Source: source, Base: transport}})
}

func (c *Cloud) listen() error {
	chain, key, err := certificate.Serving([]string{rest.Host, FilesHost, c.bind, "127.0.0.1", "localhost"}, &c.authority, time.Now(), c.authority.Leaf.NotAfter)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return fmt.Errorf("reading the serving certificate: %w", err)
	}
	// Without HTTP/2, so that a lost connection is lost for one request only.
	secure := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	handler := rest.NewHandler(rest.Options{
		Account: c.Account, Tokens: c.Tokens, Faults: c.Faults, Ledger: c.Ledger, Log: c.opts.Log,
	})
	apiAddress, err := c.serve(handler, c.bind, secure)
	if err != nil {
		return err
	}
	filesAddress, err := c.serve(c.Files, c.bind, secure)
	if err != nil {
		return err
	}
	registry := ""
	if c.opts.Localkube != "" {
		address, err := c.serve(distribution.NewRegistry(c.opts.Localkube), c.bind, secure)
		if err != nil {
			return err
		}
		registry = "https://" + address
	}
	routes := map[string]string{rest.Host + ":443": apiAddress, FilesHost + ":443": filesAddress, filesAddress: filesAddress}
	c.proxy = &tunnels{routes: routes}
	c.proxy.running, c.endTunnels = context.WithCancel(context.Background())
	proxyAddress, err := c.serve(c.proxy, c.bind, nil)
	if err != nil {
		return err
	}
	var random [24]byte
	_, _ = rand.Read(random[:]) // never fails
	secret := hex.EncodeToString(random[:])
	adminAddress, err := c.serve(c.console(secret), "127.0.0.1", nil)
	if err != nil {
		return err
	}
	c.Endpoints = Endpoints{
		Proxy: "http://" + proxyAddress, Files: "https://" + filesAddress, Registry: registry,
		Admin: "http://" + adminAddress, AdminSecret: secret, CAFile: c.CAFile(),
	}
	if c.opts.StateDir == "" {
		return nil
	}
	content, err := json.MarshalIndent(c.Endpoints, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding endpoints: %w", err)
	}
	fresh := c.path(EndpointsFile) + ".new"
	if err := os.WriteFile(fresh, content, 0o600); err != nil {
		return fmt.Errorf("writing endpoints: %w", err)
	}
	return os.Rename(fresh, c.path(EndpointsFile))
}

func (c *Cloud) serve(handler http.Handler, host string, secure *tls.Config) (string, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", fmt.Errorf("listening: %w", err)
	}
	address := listener.Addr().String()
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	httpServer := &http.Server{
		Handler: handler, ReadHeaderTimeout: 30 * time.Second,
		ErrorLog: slog.NewLogLogger(c.opts.Log.Handler(), slog.LevelDebug),
	}
	c.listening = append(c.listening, httpServer)
	go func() {
		if err := httpServer.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			c.opts.Log.Error("serving", "address", address, "error", err)
		}
	}()
	return address, nil
}

func (c *Cloud) stopListening() error {
	if c.endTunnels != nil {
		c.endTunnels()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var errs []error
	for _, httpServer := range c.listening {
		if err := httpServer.Shutdown(ctx); err != nil {
			errs = append(errs, httpServer.Close())
		}
	}
	c.listening = nil
	return errors.Join(errs...)
}
