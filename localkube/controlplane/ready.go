package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/drover-project/drover/localkube/pki"
)

const (
	pollEvery   = 50 * time.Millisecond
	pollTimeout = 5 * time.Second
)

// AwaitEtcd returns when etcd has a leader and serves.
func (o Options) AwaitEtcd(ctx context.Context) error {
	client, err := httpClient(o.Store.Etcd, o.EtcdClientPair())
	if err != nil {
		return err
	}
	return await(ctx, client, o.EtcdURL()+"/health")
}

// AwaitAPIServer returns when the API server says it is ready, which includes
// the roles it makes at its first start.
func (o Options) AwaitAPIServer(ctx context.Context) error {
	client, err := httpClient(o.Store.Cluster, o.AdminPair())
	if err != nil {
		return err
	}
	return await(ctx, client, o.URL()+"/readyz")
}

// Ready asks once whether the API server at a URL is ready: a server that is
// looked at from outside may be bound to another address than URL tells.
func (o Options) Ready(ctx context.Context, url string) error {
	client, err := httpClient(o.Store.Cluster, o.AdminPair())
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return probe(ctx, client, url+"/readyz")
}

func httpClient(ca *pki.Authority, pair pki.Pair) (*http.Client, error) {
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("loading client certificate: %w", err)
	}
	config := &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	// No proxy: the environment's is for the internet, these are our own.
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: pollTimeout}, nil
}

func await(ctx context.Context, client *http.Client, url string) error {
	defer client.CloseIdleConnections()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := probe(ctx, client, url)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

func probe(ctx context.Context, client *http.Client, url string) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("probing %s: %w", url, err)
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("probing %s: %w", url, err)
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	if err != nil {
		return fmt.Errorf("probing %s: %w", url, err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("probing %s: %s: %s", url, res.Status, body)
	}
	return nil
}
