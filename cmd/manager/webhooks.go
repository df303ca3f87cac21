package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-project/drover/admission"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/endpoint/servingcert"
	"github.com/drover-project/drover/install"
)

// webhooks configures the API server to call us, once we answer.
type webhooks struct {
	client client.Client
	target admission.Target
	certs  *servingcert.Source
	// clientCA signs the certificates of API servers; nil when the administrator named none.
	clientCA   *x509.CertPool
	configured atomic.Bool
}

// configureRetry is how long to wait after the configurations could not be written.
const configureRetry = 2 * time.Second

func (p *plan) webhooks(ctx context.Context) (*webhooks, error) {
	o := p.options
	owner, err := install.Owner(ctx, p.direct, o.managerNamespace)
	if err != nil {
		return nil, err
	}
	username, err := ownName(ctx, p.direct)
	if err != nil {
		return nil, err
	}
	w := &webhooks{client: p.direct, target: admission.Target{
		Service: client.ObjectKey{Namespace: o.managerNamespace, Name: charts.WebhookService}, URL: o.webhookURL,
		Username: username, CAPI: p.mode == capi.Embedded, Owner: owner,
	}}
	if _, w.clientCA, err = readClientCA(o.webhookClientCA); err != nil {
		return nil, err
	}
	names, err := servingNames(o)
	if err != nil {
		return nil, err
	}
	w.certs, err = servingcert.Load(ctx, servingcert.Options{Client: p.direct, Names: names, Changed: w.configure,
		Secret: client.ObjectKey{Namespace: o.managerNamespace, Name: o.servingCertSecret}})
	return w, err
}

// ownName is the manager's user name at the API server if it is a service account. A person who
// runs the manager by hand is validated like all other users.
func ownName(ctx context.Context, c client.Client) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return "", fmt.Errorf("asking the API server who we are: %w", err)
	}
	if name := review.Status.UserInfo.Username; strings.HasPrefix(name, "system:serviceaccount:") {
		return name, nil
	}
	return "", nil
}

func servingNames(o *options) ([]string, error) {
	if o.webhookURL == "" {
		service := charts.WebhookService + "." + o.managerNamespace + ".svc"
		return []string{service, service + ".cluster.local"}, nil
	}
	target, err := url.Parse(o.webhookURL)
	if err != nil {
		return nil, fmt.Errorf("reading --webhook-url: %w", err)
	}
	return []string{target.Hostname()}, nil
}

// readClientCA reads the certificates that --webhook-client-ca-file names; nil when it names nothing.
func readClientCA(file string) (pem []byte, pool *x509.CertPool, err error) {
	if file == "" {
		return nil, nil, nil
	}
	if pem, err = os.ReadFile(file); err != nil {
		return nil, nil, fmt.Errorf("reading --webhook-client-ca-file: %w", err)
	}
	pool = x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, nil, fmt.Errorf("reading --webhook-client-ca-file: %s holds no certificate in PEM", file)
	}
	return pem, pool, nil
}

// start waits until the server answers, because a configured webhook that does not answer blocks
// all writes.
func (w *webhooks) start(ctx context.Context, started func(*http.Request) error) error {
	for ctx.Err() == nil {
		delay := 50 * time.Millisecond
		if started(nil) == nil {
			err := w.configure(ctx, w.certs.CABundle(), w.certs.Path())
			if err == nil {
				return nil
			}
			ctrl.LoggerFrom(ctx).Error(err, "Configuring the webhooks")
			delay = configureRetry
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
	return nil
}

func (w *webhooks) configure(ctx context.Context, bundle []byte, path string) error {
	target := w.target
	target.CABundle, target.Path = bundle, path
	if err := install.Webhooks(ctx, w.client, target); err != nil {
		return err
	}
	w.configured.Store(true)
	return nil
}

// everyReplica is a runnable that does not wait to lead.
type everyReplica struct{ manager.RunnableFunc }

var _ manager.LeaderElectionRunnable = everyReplica{}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (f everyReplica) NeedLeaderElection() bool { return false }
