package ledger_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/ledger"
)

func TestLedgerTellsWhatWasMadeAndWhatIsLeft(t *testing.T) {
	l, err := ledger.Open("")
	require.NoError(t, err)
	add := func(entries ...ledger.Entry) {
		for _, entry := range entries {
			require.NoError(t, l.Append(entry))
		}
	}
	add(
		ledger.Entry{Op: ledger.OpCreated, Kind: ledger.KindKey, ID: "1", Name: "k"},
		ledger.Entry{Op: ledger.OpCreated, Kind: ledger.KindDroplet, ID: "1", Name: "a", Tags: []string{"x"}, Token: "t", RequestID: "r1"},
		ledger.Entry{Op: ledger.OpChanged, Kind: ledger.KindDroplet, ID: "1", Tags: []string{"x", "y"}},
		ledger.Entry{Op: ledger.OpFault, Cause: "429"},
		ledger.Entry{Op: ledger.OpRemoved, Kind: ledger.KindDroplet, ID: "1", Token: "u", RequestID: "r2", Cause: "vanished"},
	)

	live := l.Live()
	require.Len(t, live, 1)
	require.Equal(t, ledger.KindKey, live[0].Kind)
	require.Empty(t, l.Live(ledger.KindDroplet))

	droplets := l.Records(ledger.KindDroplet)
	require.Len(t, droplets, 1)
	require.Equal(t, []string{"x", "y"}, droplets[0].Tags)
	require.Equal(t, "r1", droplets[0].RequestID)
	require.Equal(t, "r2", droplets[0].RemovedRequestID)
	require.Equal(t, "vanished", droplets[0].Cause)
	require.False(t, droplets[0].IsLive())
	require.Len(t, l.Entries(), 5)
}

func TestOpenSurvivesATornLastLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l, err := ledger.Open(path)
	require.NoError(t, err)
	require.NoError(t, l.Append(ledger.Entry{Op: ledger.OpCreated, Kind: ledger.KindKey, ID: "7"}))
	require.NoError(t, l.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(content, []byte(`{"seq":2,"op":"rem`)...), 0o600))

	l, err = ledger.Open(path)
	require.NoError(t, err)
	require.Len(t, l.Live(ledger.KindKey), 1)
	require.NoError(t, l.Append(ledger.Entry{Op: ledger.OpRemoved, Kind: ledger.KindKey, ID: "7"}))
	require.NoError(t, l.Close())

	l, err = ledger.Open(path)
	require.NoError(t, err)
	require.Empty(t, l.Live())
	require.Equal(t, 2, l.Entries()[1].Seq)
	require.NoError(t, l.Close())
}

func TestOpenRefusesADamagedLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	require.NoError(t, os.WriteFile(path, []byte("nonsense\n"), 0o600))
	_, err := ledger.Open(path)
	require.ErrorContains(t, err, "parsing ledger line")
}
