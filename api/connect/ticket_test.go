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
	for name, open := range map[string]func() (connect.Ticket, bool){
		"another Secret":    func() (connect.Ticket, bool) { return connect.OpenTicket(secret, "team-a", "two", text, noon.Add(-1)) },
		"another namespace": func() (connect.Ticket, bool) { return connect.OpenTicket(secret, "team-b", "one", text, noon.Add(-1)) },
		"another endpoint": func() (connect.Ticket, bool) {
			return connect.OpenTicket([]byte("b"), "team-a", "one", text, noon.Add(-1))
		},
		"too late": func() (connect.Ticket, bool) { return connect.OpenTicket(secret, "team-a", "one", text, noon) },
		"another text": func() (connect.Ticket, bool) {
			return connect.OpenTicket(secret, "team-a", "one", "A"+text[1:], noon.Add(-1))
		},
		"none": func() (connect.Ticket, bool) { return connect.OpenTicket(secret, "team-a", "one", "", noon.Add(-1)) },
	} {
		_, ok := open()
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
