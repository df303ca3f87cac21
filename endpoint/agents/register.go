package agents

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/api/connect"
	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/endpoint"
)

// registrar answers connect.Path.
type registrar struct {
	Options

	guard  *guard
	grants *grants
	// known and strangers limit the concurrent requests of agents and others that use the API
	// server.
	known, strangers *semaphore.Weighted
	// events limits the rate of the events about addresses that are throttled.
	events *rate.Limiter
}

const (
	// maxAtOnce also bounds how far a client that floods can exceed its limit.
	maxAtOnce = 16
	// eventsPerSecond and eventsBurst are for all addresses together.
	eventsPerSecond, eventsBurst = rate.Limit(1.0 / 60), 5
)

// refusal is a response other than 200: the complete text for the agent.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return r.text }

var (
	// errUnknown is the same response for every attempt of a stranger, so that it reveals nothing
	// about existing objects.
	errUnknown   = &refusal{http.StatusUnauthorized, "this token or key is unknown; docs/endpoint.md describes how an agent that has lost its key registers again"}
	errThrottled = &refusal{http.StatusTooManyRequests, "too many requests from this agent or address were rejected: wait a minute"}
	errClock     = &refusal{http.StatusConflict, "the time of the request differs too much from the time of this response"}
	errReplayed  = &refusal{http.StatusUnauthorized, "this token was used by another agent"}
)

// ServeHTTP implements http.Handler. It identifies the visitor before it asks the API server: the
// signature proves the key, and the ticket proves that this key was admitted before.
func (r *registrar) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	v := visitorOf(req.Context())
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, connect.MaxRequestBytes))
	if err != nil {
		refused(w, &refusal{http.StatusBadRequest, "the request could not be read"})
		return
	}
	request, err := connect.DecodeRequest(body, req.Header.Get(connect.SignatureHeader))
	if err != nil {
		err = &refusal{http.StatusBadRequest, err.Error()}
	} else if ticket, ok := connect.OpenTicket(r.TicketSecret(), request.Namespace, request.SecretName, req.Header.Get(connect.TicketHeader), r.Now()); ok &&
		ticket == connect.NewTicket(request.Namespace, request.SecretName, request.PublicKey) {
		v.ticket, v.known = ticket, true
		v.permit.Prefer()
	}
	var granted []byte
	switch {
	case !r.guard.throttle.allows(v):
		err = errThrottled
	case err == nil:
		granted, err = r.register(req.Context(), v, request, req.Header)
	}
	var no *refusal
	switch {
	case errors.As(err, &no):
		// The throttle counts each failure, except its own rejections and those for a full
		// endpoint: otherwise it would never end.
		switch no.code {
		case http.StatusTooManyRequests:
		case http.StatusUnauthorized, http.StatusBadRequest:
			r.charge(req.Context(), v)
			log.FromContext(req.Context()).V(1).Info("Rejecting an agent", "address", v.address, "why", no.text)
		default:
			r.guard.throttle.charge(v)
		}
		refused(w, no)
	case err != nil:
		r.guard.throttle.charge(v)
		log.FromContext(req.Context()).Error(logged(err), "Registering an agent", "address", v.address)
		refused(w, &refusal{http.StatusServiceUnavailable, "the management cluster does not respond: try again"})
	default:
		registrations.WithLabelValues("200").Inc()
		endpoint.Prefer(req.Context())
		answer(w, "application/json", granted)
	}
}

// maxLogged bounds an error in the log, in bytes: any stranger can cause the line.
const maxLogged = 1 << 10

// logged returns an error that is short enough for the log.
func logged(err error) error {
	text := err.Error()
	if len(text) <= maxLogged {
		return err
	}
	return fmt.Errorf("%s… (%d bytes more)", strings.ToValidUTF8(text[:maxLogged], ""), len(text)-maxLogged)
}

func refused(w http.ResponseWriter, no *refusal) {
	registrations.WithLabelValues(strconv.Itoa(no.code)).Inc()
	switch no.code {
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", retryThrottled)
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", retryDown)
	}
	http.Error(w, no.text, no.code)
}

// charge counts a rejection, and reports an address when the throttle starts to reject its
// strangers.
func (r *registrar) charge(ctx context.Context, v *visitor) {
	if r.guard.throttle.charge(v); v.known || r.guard.throttle.allows(v) || !r.events.AllowN(r.Now(), 1) {
		return
	}
	log.FromContext(ctx).Info("Rejecting registrations from an address for a while after too many failures", "address", v.address)
	r.Recorder.Eventf(r.Self, nil, corev1.EventTypeWarning, rkev1.RegistrationsRefusedReason, "Register",
		"too many registrations from %s failed: the endpoint serves only known agents from this address for a while. The cause is a client that guesses tokens, or servers with old bootstrap data",
		v.address)
}

// register is a request's way to an answer. Its cheap checks come first.
func (r *registrar) register(ctx context.Context, v *visitor, request connect.Request, header http.Header) ([]byte, error) {
	if r.Now().Sub(request.Time).Abs() > connect.MaxSkew {
		return nil, errClock
	}
	who := claimant{publicKey: request.PublicKey, key: base64.StdEncoding.EncodeToString(request.PublicKey)}
	if connect.IsCloudServer(request.CloudServer) {
		who.server = request.CloudServer
	}
	at := client.ObjectKey{Namespace: request.Namespace, Name: request.SecretName}
	credential := ""
	if sent, ok := strings.CutPrefix(header.Get("Authorization"), bearer); ok {
		token, err := connect.ParseToken(sent)
		if err != nil {
			return nil, errUnknown
		}
		who.token, at, credential = &token, client.ObjectKey{Namespace: token.Namespace, Name: token.SecretName}, token.Hash()
	}
	if at.Namespace == "" || at.Name == "" {
		return nil, errUnknown
	}
	return r.grants.once(ctx, at.String(), who.key, credential, func(ctx context.Context) ([]byte, error) {
		turns := r.strangers
		if v.known {
			turns = r.known
		}
		if err := turns.Acquire(ctx, 1); err != nil {
			return nil, fmt.Errorf("waiting for a turn: %w", err)
		}
		defer turns.Release(1)
		if !r.guard.throttle.allows(v) { // it was rejected too often since the first check
			return nil, errThrottled
		}
		secret, err := r.admit(ctx, at, who)
		if err != nil {
			return nil, err
		}
		return r.grant(ctx, secret, who)
	})
}

// claimant requests access to a plan Secret: the holder of a key, with a bootstrap token or
// without.
type claimant struct {
	publicKey []byte
	// key is the public key as it is stored.
	key   string
	token *connect.Token
	// server is the agent's server as the agent reports it; empty if it does not know.
	server string
}

// judge decides from a plan Secret's data. bind is true if the token is valid and must be bound to
// the key.
func (c claimant) judge(data map[string][]byte) (bind bool, err error) {
	good := c.token != nil && c.token.Matches(string(data[plan.KeyTokenHash]))
	used := c.token != nil && c.token.Matches(string(data[plan.KeyTokenUsed])) // also when it is burned
	switch {
	case good && !used: // a token that was made for another create attempt takes the place of an earlier server's key
		return true, nil
	case string(data[plan.KeyAgentPublicKey]) == c.key:
		return false, nil
	case used:
		return false, errReplayed
	}
	return false, errUnknown
}

// bind binds the machine to the key. It deletes the reports of an earlier server's agent, because
// they are not true of the new one.
func (c claimant) bind(data map[string][]byte) {
	if string(data[plan.KeyAgentPublicKey]) != c.key {
		for _, key := range plan.KeysOf(plan.Agent) {
			delete(data, key)
		}
		if len(data[plan.KeyPlan]) > 0 {
			data[plan.KeyState] = []byte(plan.StatePending)
		}
	}
	data[plan.KeyAgentPublicKey], data[plan.KeyTokenUsed] = []byte(c.key), data[plan.KeyTokenHash]
}

// admit finds the plan Secret and binds its token to the key of the first agent that uses it. If
// two agents come at the same moment, the second sees the first one's key: the write fails if the
// Secret has changed.
func (r *registrar) admit(ctx context.Context, at client.ObjectKey, who claimant) (*corev1.Secret, error) {
	var secret *corev1.Secret
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		secret = &corev1.Secret{} // content that could not be written must not look like stored content
		err := r.Client.Get(ctx, at, secret)
		if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || err == nil && secret.Type != plan.SecretType {
			return errUnknown
		} else if err != nil {
			return fmt.Errorf("reading plan Secret %s: %w", at, err)
		}
		bind, err := who.judge(secret.Data)
		if err != nil || !bind {
			return err
		}
		who.bind(secret.Data)
		delete(secret.Annotations, rkev1.AgentServerAnnotation)
		if who.server != "" {
			metav1.SetMetaDataAnnotation(&secret.ObjectMeta, rkev1.AgentServerAnnotation, who.server)
		}
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, rkev1.AgentSeenAnnotation, r.Now().UTC().Format(time.RFC3339))
		return r.Client.Update(ctx, secret)
	})
	if errors.Is(err, errReplayed) {
		r.Recorder.Eventf(secret, nil, corev1.EventTypeWarning, rkev1.TokenReplayedReason, "Register",
			"a second agent used this machine's bootstrap token and was rejected: if you did not start the server's image twice, another party has its bootstrap data")
	}
	if err != nil {
		return nil, err
	}
	return secret, nil
}

// grant creates the access to a plan Secret: a token of the ServiceAccount with the same name,
// which ends with the Secret. A user with the right to create Secrets can create one with the
// name of any account. An account therefore gets a token only if it was made together with the
// Secret.
func (r *registrar) grant(ctx context.Context, secret *corev1.Secret, who claimant) ([]byte, error) {
	account := &corev1.ServiceAccount{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(secret), account); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ServiceAccount %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	owner, same := metav1.GetControllerOf(account), metav1.GetControllerOf(secret)
	if owner == nil || same == nil || owner.Kind != "RKEBootstrap" || owner.UID != same.UID {
		return nil, errUnknown
	}
	issued := r.Now().UTC().Truncate(1e9)
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: new(int64(connect.TokenLife / time.Second)),
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID},
	}}
	if err := r.Client.SubResource("token").Create(ctx, account, token); err != nil {
		return nil, fmt.Errorf("requesting a token of ServiceAccount %s/%s: %w", account.Namespace, account.Name, err)
	}
	r.noteSeen(ctx, secret, issued)
	ticket := connect.NewTicket(secret.Namespace, secret.Name, who.publicKey).Seal(r.TicketSecret(), issued.Add(connect.TicketLife))
	const name = "drover"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: r.Server, CertificateAuthorityData: r.Authorities("")}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: connect.WithTicket(token.Status.Token, ticket)}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: secret.Namespace}
	config.CurrentContext = name
	kubeconfig, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return json.Marshal(connect.Answer{KubeConfig: string(kubeconfig), Namespace: secret.Namespace, SecretName: secret.Name,
		IssuedAt: &issued, ExpiresAt: &token.Status.ExpirationTimestamp.Time, Ticket: ticket})
}

// noteSeen records that the agent was there. It skips early renewals, and an error is repaired by
// the next renewal: an agent counts as silent only if it has not renewed for as long as its access
// lasts.
func (r *registrar) noteSeen(ctx context.Context, secret *corev1.Secret, now time.Time) {
	if last, err := time.Parse(time.RFC3339, secret.Annotations[rkev1.AgentSeenAnnotation]); err == nil && now.Sub(last).Abs() < connect.TokenLife/4 {
		return
	}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`,
		secret.UID, rkev1.AgentSeenAnnotation, now.Format(time.RFC3339)))
	if err := r.Client.Patch(ctx, secret.DeepCopy(), patch); client.IgnoreNotFound(err) != nil {
		log.FromContext(ctx).Error(logged(err), "Recording the call of an agent", "secret", client.ObjectKeyFromObject(secret))
	}
}
