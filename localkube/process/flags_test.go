package process

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFlags(t *testing.T) {
	ours := []string{"a=1", "b=2", "c=3"}
	require.Equal(t, []string{"--a=1", "--c=3", "--b=4", "--b=5", "--d"}, Flags(ours, []string{"b=4", "b=5", "d"}))
	require.Equal(t, []string{"a=1", "b=2", "c=3"}, ours)
	require.Empty(t, Flags(nil, nil))
}
