package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
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

// AddMember makes a member that does not vote yet, unless it is one already,
// and returns all members as etcd wants them: name=peerURL.
func (o Options) AddMember(ctx context.Context, name, peerURL string) (members []string, err error) {
	err = o.withEtcd(ctx, func(ctx context.Context, client *clientv3.Client) error {
		list, err := client.MemberList(ctx)
		if err != nil {
			return fmt.Errorf("listing etcd members: %w", err)
		}
		known := slices.ContainsFunc(list.Members, func(m *etcdserverpb.Member) bool { return slices.Contains(m.PeerURLs, peerURL) })
		if !known {
			if _, err := client.MemberAddAsLearner(ctx, []string{peerURL}); err != nil {
				return fmt.Errorf("adding etcd member: %w", err)
			}
		}
		members = []string{name + "=" + peerURL}
		for _, m := range list.Members {
			if !slices.Contains(m.PeerURLs, peerURL) && m.Name != "" {
				members = append(members, m.Name+"="+m.PeerURLs[0])
			}
		}
		return nil
	})
	return members, err
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
