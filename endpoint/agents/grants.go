package agents

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/utils/lru"
)

const (
	// answerLife is how long a repeated request gets the same response: an agent does not need a
	// second token so soon.
	answerLife = 30 * time.Second
	// maxAnswers of some 5 KB are remembered.
	maxAnswers = 1024
	// answerTime bounds the work for a response, which goes on even if all clients have left.
	answerTime = 30 * time.Second
)

// grants limits each agent to one request to the API server at a time, and one in a while, however
// often the agent asks.
type grants struct {
	now     func() time.Time
	flights singleflight.Group
	mu      sync.Mutex
	answers *lru.Cache
}

// given is the last response for a plan Secret. The response for another agent replaces it; the
// previous agent's next request goes to the API server again.
type given struct {
	key    string
	answer []byte
	at     time.Time
}

// once returns the response for the agent of a plan Secret with a key, and remembers it if ask
// succeeds. A request with another credential for the same agent does not wait for this one.
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
