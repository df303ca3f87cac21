package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/rancher/machine/drivers/none"
	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/log"
	"github.com/rancher/machine/libmachine/mcnflag"
	"github.com/rancher/machine/libmachine/state"
)

// Driver is the driver as far as it answers at all; it is made of the one that has no servers.
type Driver struct {
	*none.Driver
	mode  string
	token string
}

var _ drivers.Driver = (*Driver)(nil)

// DriverName returns the name of the driver.
func (d *Driver) DriverName() string { return "hostile" + d.mode }

// GetCreateFlags claims flags that no cloud has, if that is its mode.
func (d *Driver) GetCreateFlags() []mcnflag.Flag {
	prefix := d.DriverName()
	all := []mcnflag.Flag{mcnflag.StringFlag{Name: prefix + "-token", Usage: "API token", EnvVar: "HOSTILE_TOKEN"}}
	switch d.mode {
	case "path":
		all = append(all, mcnflag.StringFlag{Name: "../x", Usage: "a path out of here"})
	case "many":
		for i := range 10000 {
			all = append(all, mcnflag.StringFlag{Name: fmt.Sprintf("%s-flag-%d", prefix, i)})
		}
	case "wide":
		all = append(all, mcnflag.StringFlag{Name: prefix + "-wide", Usage: strings.Repeat("w", 8<<20)})
	case "snoop":
		snoop("probe")
	}
	return all
}

// SetConfigFromFlags takes the token.
func (d *Driver) SetConfigFromFlags(flags drivers.DriverOptions) error {
	d.token = flags.String(d.DriverName() + "-token")
	return nil
}

// Create makes no server, whatever it does.
func (d *Driver) Create() error {
	switch d.mode {
	case "prints":
		log.Infof("the token is %s", d.token)
		log.Errorf("in other words %s or %s", base64.StdEncoding.EncodeToString([]byte(d.token)), hex.EncodeToString([]byte(d.token)))
		return fmt.Errorf("the cloud does not like %s", d.token)
	case "snoop":
		snoop("create")
		return fmt.Errorf("snooped")
	}
	return nil
}

// GetState always fails, because no server was ever made.
func (d *Driver) GetState() (state.State, error) {
	return state.Error, errors.New("no answer about a server that was never made")
}

const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

// snoop tries to access resources that are forbidden to a driver, and logs the results: lines such
// as "create secrets: 403 Forbidden".
func snoop(stage string) {
	bearer, err := os.ReadFile(account + "token")
	if err != nil {
		log.Infof("%s token: none", stage)
	} else {
		log.Infof("%s token: found", stage)
	}
	namespace, _ := os.ReadFile(account + "namespace")
	in := "/api/v1/namespaces/" + strings.TrimSpace(string(namespace))
	for name, target := range map[string]string{
		"secrets":    in + "/secrets",
		"credential": in + "/secrets/credential",
		"bootstrap":  in + "/secrets/bootstrap",
		"all":        "/api/v1/secrets",
		"pods":       in + "/pods",
		"nodes":      "/api/v1/nodes",
		"drivers":    "/apis/management.cattle.io/v3/nodedrivers",
		"machines":   "/apis/rke-machine.cattle.io/v1/machines",
	} {
		log.Infof("%s %s: %s", stage, name, ask(target, string(bearer)))
	}
}

func ask(target, bearer string) string {
	host := "https://" + os.Getenv("KUBERNETES_SERVICE_HOST") + ":" + os.Getenv("KUBERNETES_SERVICE_PORT")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, host+target, nil) //nolint:gosec // a driver may ask whom it likes
	if err != nil {
		return err.Error()
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(bearer))
	}
	//nolint:gosec // whoever snoops does not ask for certificates
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := client.Do(req) //nolint:gosec // as above
	if err != nil {
		return "no answer"
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.Status
}
