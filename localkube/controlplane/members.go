package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const memberTimeout = 10 * time.Second

// withEtcd runs one operation on the cluster's membership.
func (o Options) withEtcd(ctx context.Context, act func(context.Context, *clientv3.Client) error) (err error) {
	pair := o.EtcdClientPair()
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return fmt.Errorf("loading etcd certificate: %w", err)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{o.EtcdURL()},
		TLS:       &tls.Config{RootCAs: o.Store.Etcd.Pool(), Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		Logger:    zap.NewNop(),
	})
	if err != nil {
		return fmt.Errorf("connecting to etcd: %w", err)
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	return act(ctx, client)
}

// ErrNameTaken says that another member of etcd has the name.
var ErrNameTaken = errors.New("another server of the cluster has this name: choose another with --node-name")

// AddMember makes a member that does not vote yet, unless it is one already,
// and returns all members as etcd wants them: name=peerURL.
func (o Options) AddMember(ctx context.Context, name, peerURL string) (members []string, err error) {
	err = o.withEtcd(ctx, func(ctx context.Context, client *clientv3.Client) error {
		list, err := client.MemberList(ctx)
		if err != nil {
			return fmt.Errorf("listing etcd members: %w", err)
		}
		var known bool
		if members, known, err = membersWith(list.Members, name, peerURL); err != nil || known {
			return err
		}
		_, err = client.MemberAddAsLearner(ctx, []string{peerURL})
		return explainAdd(err, list.Members)
	})
	return members, err
}

// membersWith lists a cluster's members and the one that joins, which may be
// among them from an earlier try: known tells.
func membersWith(list []*etcdserverpb.Member, name, peerURL string) (members []string, known bool, err error) {
	members = []string{name + "=" + peerURL}
	for _, m := range list {
		switch {
		case slices.Contains(m.PeerURLs, peerURL):
			known = true
		case m.Name == name:
			return nil, false, fmt.Errorf("adding etcd member %s: %w", name, ErrNameTaken)
		case m.Name != "" && len(m.PeerURLs) > 0:
			members = append(members, m.Name+"="+m.PeerURLs[0])
		}
	}
	return members, known, nil
}

// explainAdd names the member that is in the way: etcd lets one in at a time.
func explainAdd(err error, list []*etcdserverpb.Member) error {
	if err == nil {
		return nil
	}
	for _, m := range list {
		if m.IsLearner && errors.Is(err, rpctypes.ErrTooManyLearners) {
			return fmt.Errorf("adding etcd member: the server at %s has not finished joining: let it finish first: %w",
				strings.Join(m.PeerURLs, ","), err)
		}
	}
	return fmt.Errorf("adding etcd member: %w", err)
}

// PromoteMember lets a member vote. Etcd refuses while the member lags behind.
func (o Options) PromoteMember(ctx context.Context, name string) error {
	return o.withEtcd(ctx, func(ctx context.Context, client *clientv3.Client) error {
		list, err := client.MemberList(ctx)
		if err != nil {
			return fmt.Errorf("listing etcd members: %w", err)
		}
		for _, m := range list.Members {
			if m.Name != name {
				continue
			}
			if !m.IsLearner {
				return nil
			}
			if _, err := client.MemberPromote(ctx, m.ID); err != nil {
				return fmt.Errorf("promoting etcd member %s: %w", name, err)
			}
			return nil
		}
		return fmt.Errorf("promoting etcd member %s: it has not started", name)
	})
}
