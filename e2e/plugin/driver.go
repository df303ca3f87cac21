package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/digitalocean/godo"
	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/log"
	"github.com/rancher/machine/libmachine/ssh"
	"github.com/rancher/machine/libmachine/state"
	"golang.org/x/oauth2"
)

const pollEvery = 500 * time.Millisecond

// Driver is the driver; its exported fields are its record in the machine's state.
type Driver struct {
	*drivers.BaseDriver
	InstanceID        string
	SSHKeyID          int
	Endpoint          string
	CACert            string
	Region            string
	Size              string
	SecondDiskGB      int
	PrivateNetworking bool
	IPv6              bool
	PrivateIPAddress  string
	Tags              []string
	UserDataFile      string
	UserDataText      string
	Fail              string

	token  string
	getenv func(string) string
}

var _ drivers.Driver = (*Driver)(nil)

// DriverName returns the name of the driver.
func (d *Driver) DriverName() string { return "drovertest" }

// GetSSHHostname returns the address to log in to.
func (d *Driver) GetSSHHostname() (string, error) { return d.GetIP() }

// GetURL returns where Docker would listen.
func (d *Driver) GetURL() (string, error) {
	address, err := d.GetIP()
	if err != nil {
		return "", err
	}
	return "tcp://" + net.JoinHostPort(address, "2376"), nil
}

// PreCreateCheck asks the API whether the token and the region are good.
func (d *Driver) PreCreateCheck() error {
	if d.Fail == "check" {
		return errors.New("drovertest: told to fail the check")
	}
	client, err := d.client()
	if err != nil {
		return err
	}
	regions, _, err := client.Regions.List(context.Background(), nil)
	if err != nil {
		return fmt.Errorf("listing regions: %w", err)
	}
	if !slices.ContainsFunc(regions, func(region godo.Region) bool { return region.Slug == d.Region }) {
		return fmt.Errorf("drovertest: there is no region %q", d.Region)
	}
	return nil
}

// Create makes a key and a server and waits for its address.
func (d *Driver) Create() error {
	client, err := d.client()
	if err != nil {
		return err
	}
	switch d.Fail {
	case "create":
		return errors.New("drovertest: told to fail the creation")
	case "crash":
		log.Error("drovertest: told to crash")
		os.Exit(3)
	case "hang":
		select {}
	}
	if err := d.createKey(client); err != nil {
		return err
	}
	if err := d.createServer(client); err != nil {
		return err
	}
	if d.Fail == "after-create" {
		return errors.New("drovertest: told to fail after the creation")
	}
	return d.awaitAddress(client)
}

func (d *Driver) createKey(client *godo.Client) error {
	if err := ssh.GenerateSSHKey(d.GetSSHKeyPath()); err != nil {
		return fmt.Errorf("generating key: %w", err)
	}
	public, err := os.ReadFile(d.GetSSHKeyPath() + ".pub")
	if err != nil {
		return fmt.Errorf("reading public key: %w", err)
	}
	key, _, err := client.Keys.Create(context.Background(), &godo.KeyCreateRequest{Name: d.MachineName, PublicKey: string(public)})
	if err != nil {
		return fmt.Errorf("registering key: %w", err)
	}
	d.SSHKeyID = key.ID
	return nil
}

func (d *Driver) createServer(client *godo.Client) error {
	userData := []byte(d.UserDataText)
	if d.UserDataFile != "" {
		var err error
		if userData, err = os.ReadFile(d.UserDataFile); err != nil {
			return fmt.Errorf("reading user data: %w", err)
		}
	}
	created, _, err := client.Droplets.Create(context.Background(), &godo.DropletCreateRequest{
		Name: d.MachineName, Region: d.Region, Size: d.Size, Image: godo.DropletCreateImage{Slug: "debian-12-x64"},
		SSHKeys: []godo.DropletCreateSSHKey{{ID: d.SSHKeyID}}, PrivateNetworking: d.PrivateNetworking, IPv6: d.IPv6,
		UserData: string(userData), Tags: d.Tags,
	})
	if err != nil {
		return fmt.Errorf("creating server: %w", err)
	}
	d.InstanceID = strconv.Itoa(created.ID)
	return nil
}

func (d *Driver) awaitAddress(client *godo.Client) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for d.IPAddress == "" {
		droplet, _, err := client.Droplets.Get(context.Background(), d.dropletID())
		if err != nil {
			return fmt.Errorf("waiting for the server's address: %w", err)
		}
		for _, network := range droplet.Networks.V4 {
			if network.Type == "public" {
				d.IPAddress = network.IPAddress
				continue
			}
			d.PrivateIPAddress = network.IPAddress
		}
		d.IPv6Address, _ = droplet.PublicIPv6()
		if d.IPAddress == "" {
			<-ticker.C
		}
	}
	return nil
}

// GetState asks the API for the server's state. A server that was never made is not found.
func (d *Driver) GetState() (state.State, error) {
	if d.InstanceID == "" {
		return state.NotFound, nil
	}
	client, err := d.client()
	if err != nil {
		return state.Error, err
	}
	droplet, response, err := client.Droplets.Get(context.Background(), d.dropletID())
	if response != nil && response.StatusCode == http.StatusNotFound {
		return state.NotFound, nil
	}
	if err != nil {
		return state.Error, fmt.Errorf("asking for the server's state: %w", err)
	}
	switch droplet.Status {
	case "new":
		return state.Starting, nil
	case "active":
		return state.Running, nil
	case "off":
		return state.Stopped, nil
	}
	return state.None, nil
}

// Remove removes the key and the server; what is gone already is no error.
func (d *Driver) Remove() error {
	if d.Fail == "remove" {
		return errors.New("drovertest: told to fail the removal")
	}
	client, err := d.client()
	if err != nil {
		return err
	}
	if d.SSHKeyID != 0 {
		response, err := client.Keys.DeleteByID(context.Background(), d.SSHKeyID)
		if err := ignoreGone(response, err); err != nil {
			return fmt.Errorf("removing key: %w", err)
		}
	}
	if d.InstanceID == "" {
		return nil
	}
	response, err := client.Droplets.Delete(context.Background(), d.dropletID())
	if err := ignoreGone(response, err); err != nil {
		return fmt.Errorf("removing server: %w", err)
	}
	return nil
}

func ignoreGone(response *godo.Response, err error) error {
	if response != nil && response.StatusCode == http.StatusNotFound {
		return nil
	}
	return err
}

// errNoPower is what the interface's actions on power say: nobody asks for them.
var errNoPower = errors.New("drovertest: the server's power cannot be changed")

// Start is refused.
func (d *Driver) Start() error { return errNoPower }

// Stop is refused.
func (d *Driver) Stop() error { return errNoPower }

// Restart is refused.
func (d *Driver) Restart() error { return errNoPower }

// Kill is refused.
func (d *Driver) Kill() error { return errNoPower }

func (d *Driver) dropletID() int {
	id, _ := strconv.Atoi(d.InstanceID) // written by us; 0 is nobody's id
	return id
}

// secret returns the token. It is not in the state, so that a removal only works where the credential is handed over again.
func (d *Driver) secret() string { return cmp.Or(d.token, d.getenv(tokenVariable)) }

func (d *Driver) client() (*godo.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if d.CACert != "" {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(d.CACert)) {
			return nil, errors.New("drovertest: the CA certificate is not PEM")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	endpoint, err := url.Parse(strings.TrimRight(d.Endpoint, "/") + "/")
	if err != nil {
		return nil, fmt.Errorf("parsing endpoint: %w", err)
	}
	if endpoint.Scheme != "https" { // the token goes there
		return nil, fmt.Errorf("drovertest: the endpoint %q is not https", endpoint.Redacted())
	}
	source := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: d.secret()})
	client := godo.NewClient(&http.Client{Transport: &oauth2.Transport{Source: source, Base: transport}})
	client.BaseURL = endpoint
	return client, nil
}
