package join_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/join"
	"github.com/drover-project/drover/localkube/pki"
)

func TestPromote_gives_up_when_it_is_denied(t *testing.T) {
	c := &cluster{}
	url, store := serve(t, c)
	for role, want := range map[pki.Role]string{
		pki.RoleServer: "/v1/server/promote: 403 Forbidden: denied",
		pki.RoleAgent:  "/v1/server/promote: 401 Unauthorized: " + pki.ErrTokenUnknown.Error(),
	} {
		c.err, c.asked = join.ErrDenied, nil
		secret := token(t, store, role)
		client, err := join.Dial(t.Context(), url, secret)
		require.NoError(t, err)
		err = client.Promote(t.Context(), join.PromoteRequest{Name: "n"})
		require.EqualError(t, err, "asking "+url+want)
		require.ErrorIs(t, err, join.ErrDenied)
		require.NotContains(t, err.Error(), secret.Secret)
		require.LessOrEqual(t, len(c.asked), 1, "it does not ask again")
	}
}
