package distribution

import (
	"context"

	"github.com/drover-project/drover/localkube/identity"
	"github.com/drover-project/drover/localkube/join"
)

func (m *machine) startAgent(ctx context.Context) error {
	token, err := join.ParseToken(m.Token)
	if err != nil {
		return err
	}
	m.say("joining %s", m.Server)
	answer, err := join.Ask(ctx, m.Server, token, identity.Request{Name: m.NodeName, Address: m.address.String()})
	if err != nil {
		return err
	}
	files, err := answer.Take(m.DataDir, m.Server)
	if err != nil {
		return err
	}
	runtimeStarted, err := m.prepareNode(ctx, files, answer.Pods, answer.Services)
	if err != nil {
		return err
	}
	if err := runtimeStarted(); err != nil {
		return err
	}
	return m.node.Start(ctx)
}
