package facts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/cmd/drover/facts"
)

func TestAge(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	require.Empty(t, facts.Age(noon, time.Time{}))
	require.Equal(t, "90m", facts.Age(noon, noon.Add(-90*time.Minute)))
	require.Equal(t, "0s", facts.Age(noon, noon.Add(time.Hour)), "the clock of whoever asks may be behind")
	require.Equal(t, "292y", facts.Age(noon, noon.AddDate(-400, 0, 0)))
}
