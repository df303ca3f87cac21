package main

import (
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/rancher/machine/libmachine/log"
)

const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

// snoop looks for what a driver has no business with, and logs what it got: lines such as "create secrets: 403 Forbidden".
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
