package servingcert

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// API servers show no certificate when they call a webhook, unless their administrator gave them one. So our webhooks' paths begin with a word that
// stands in the webhook configurations alone, which only administrators of the cluster may read. An API server tells the whole address in its errors
// when nobody answers there; hence the word is another one every hour.

const (
	period = time.Hour
	// overlap is how long the last word is good, for who has not seen the new one, and how far the clocks of replicas may differ.
	overlap = time.Minute
)

// Path is what the paths of our webhooks begin with now.
func (s *Source) Path() string { return s.path(s.opts.Now()) }

func (s *Source) path(at time.Time) string {
	sum := hmac.New(sha256.New, s.current.Load().secret)
	_, _ = fmt.Fprintf(sum, "path of the webhooks %d", at.Unix()/int64(period.Seconds()))
	return "/" + hex.EncodeToString(sum.Sum(nil)[:sha256.Size/2])
}

// Strip takes from the path of a request what only the API server knows; false when it is not there. The one that the API server was told last is
// good until it could be told another.
func (s *Source) Strip(path string) (rest string, ok bool) {
	now, good := s.opts.Now(), 0
	word, rest, found := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	known := []string{s.path(now), s.path(now.Add(-overlap)), s.path(now.Add(overlap))}
	if told := s.told.Load(); told != nil {
		known = append(known, told.path)
	}
	for _, one := range known {
		good |= subtle.ConstantTimeCompare([]byte("/"+word), []byte(one))
	}
	return "/" + rest, found && good == 1
}
