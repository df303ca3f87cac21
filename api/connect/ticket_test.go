package connect_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/api/connect"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func TestTicket(t *testing.T) {
	secret, key := []byte("a secret"), []byte("a key")
	ticket := connect.NewTicket("team-a", "one", key)
	text := ticket.Seal(secret, noon)
	got, ok := connect.OpenTicket(secret, "team-a", "one", text, noon.Add(-time.Second))
	require.True(t, ok)
	require.Equal(t, ticket, got)
	require.NotEqual(t, ticket, connect.NewTicket("team-a", "one", []byte("another key")))
	for name, tt := range map[string]struct {
		secret, namespace, name, text string
		at                            time.Time
	}{
		"another Secret":    {"a secret", "team-a", "two", text, noon.Add(-1)},
		"another namespace": {"a secret", "team-b", "one", text, noon.Add(-1)},
		"another endpoint":  {"b", "team-a", "one", text, noon.Add(-1)},
		"too late":          {"a secret", "team-a", "one", text, noon},
		"another text":      {"a secret", "team-a", "one", "A" + text[1:], noon.Add(-1)},
		"none":              {"a secret", "team-a", "one", "", noon.Add(-1)},
	} {
		_, ok := connect.OpenTicket([]byte(tt.secret), tt.namespace, tt.name, tt.text, tt.at)
		require.False(t, ok, name)
	}
	token, ticketText := connect.CutTicket(connect.WithTicket("eyJ.a.b", text))
	require.Equal(t, "eyJ.a.b", token)
	require.Equal(t, text, ticketText)
	token, ticketText = connect.CutTicket("eyJ.a.b")
	require.Equal(t, "eyJ.a.b", token)
	require.Empty(t, ticketText)
}

// FuzzOpenTicket: nothing is a ticket but what was sealed for that Secret.
func FuzzOpenTicket(f *testing.F) {
	secret := []byte("a secret")
	sealed := connect.NewTicket("a", "b", []byte("key")).Seal(secret, noon)
	f.Add("a", "b", sealed)
	f.Add("a", "b", sealed+"\n")
	f.Fuzz(func(t *testing.T, namespace, name, text string) {
		_, ok := connect.OpenTicket(secret, namespace, name, text, noon.Add(-time.Second))
		require.Equal(t, namespace+"/"+name == "a/b" && text == sealed, ok)
	})
}
