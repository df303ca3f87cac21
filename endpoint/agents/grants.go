package agents

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/utils/lru"
)

const (
	// answerLife is how long who asks again gets the answer that he got: an agent has no use for a second token of that age.
	answerLife = 30 * time.Second
	// maxAnswers of some 5 KB are remembered.
	maxAnswers = 1024
	// answerTime bounds the work for an answer, which goes on when nobody waits for it any more.
	answerTime = 30 * time.Second
)

// grants has each agent cost the API server one answer at a time, and one in a while, however often it asks.
type grants struct {
	now     func() time.Time
	flights singleflight.Group
	mu      sync.Mutex
	answers *lru.Cache
}

// given is the last answer of a plan Secret. Another agent that is let in takes its place, and the one before is asked about anew.
type given struct {
	key    string
	answer []byte
	at     time.Time
}

// once gives the answer to the agent of a plan Secret with a key, which is remembered when it is one. Who asks with another credential for the same does not
// wait for this one.
func (g *grants) once(ctx context.Context, secret, key, credential string, ask func(context.Context) ([]byte, error)) ([]byte, error) {
	if answer := g.recent(secret, key); answer != nil {
		return answer, nil
	}
	done := g.flights.DoChan(secret+"\n"+key+"\n"+credential, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
		defer cancel()
		if answer := g.recent(secret, key); answer != nil {
			return answer, nil
		}
		answer, err := ask(ctx)
		if err == nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.answers.Add(secret, given{key: key, answer: answer, at: g.now()})
		}
		return answer, err
	})
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case result := <-done:
		answer, _ := result.Val.([]byte)
		return answer, result.Err
	}
}

func (g *grants) recent(secret, key string) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	found, ok := g.answers.Get(secret)
	if !ok {
		return nil
	}
	last := found.(given) //nolint:forcetypeassert // it holds answers only
	if last.key != key {
		return nil
	}
	if g.now().Sub(last.at).Abs() >= answerLife {
		g.answers.Remove(secret)
		return nil
	}
	return last.answer
}
