package ledger_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/ledger"
)

// newLedger returns a ledger in a file and the file's path.
func newLedger(t *testing.T) (*ledger.Ledger, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	return reopen(t, path), path
}

func reopen(t *testing.T, path string) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func entry(op ledger.Op, id string) ledger.Entry {
	return ledger.Entry{Op: op, Kind: ledger.KindDroplet, ID: id}
}

// lives are sequences of entries about droplet 1 and the record they make.
func lives() map[string]struct {
	entries []ledger.Entry
	want    ledger.Record
	live    bool
} {
	created := ledger.Entry{
		Op: ledger.OpCreated, Kind: ledger.KindDroplet, ID: "1", Name: "a", Tags: []string{"x"}, Token: "t",
		RequestID: "r1", Cause: "asked", Data: json.RawMessage(`{"n":1}`),
	}
	base := ledger.Record{
		Kind: ledger.KindDroplet, ID: "1", Name: "a", Tags: []string{"x"}, Token: "t", RequestID: "r1", Data: json.RawMessage(`{"n":1}`),
	}
	with := func(change func(*ledger.Record)) ledger.Record {
		r := base
		change(&r)
		return r
	}
	type life = struct {
		entries []ledger.Entry
		want    ledger.Record
		live    bool
	}
	return map[string]life{
		"created": {[]ledger.Entry{created}, base, true},
		"changed data": {
			[]ledger.Entry{created, {Op: ledger.OpChanged, Kind: ledger.KindDroplet, ID: "1", Tags: []string{"x"}, Data: json.RawMessage(`{"n":2}`)}},
			with(func(r *ledger.Record) { r.Data = json.RawMessage(`{"n":2}`) }), true,
		},
		"change without data keeps it": {
			[]ledger.Entry{created, {Op: ledger.OpChanged, Kind: ledger.KindDroplet, ID: "1", Token: "other", RequestID: "r2"}},
			with(func(r *ledger.Record) { r.Tags = nil }), true,
		},
		"renamed": {
			[]ledger.Entry{created, {Op: ledger.OpChanged, Kind: ledger.KindDroplet, ID: "1", Name: "b", Tags: []string{"x"}}},
			with(func(r *ledger.Record) { r.Name = "b" }), true,
		},
		"removed": {
			[]ledger.Entry{created, {Op: ledger.OpRemoved, Kind: ledger.KindDroplet, ID: "1", Token: "u", RequestID: "r3", Cause: "vanished"}},
			with(func(r *ledger.Record) { r.RemovedBy, r.RemovedRequestID, r.Cause = "u", "r3", "vanished" }), false,
		},
		"fault of the same id": {
			[]ledger.Entry{created, {Op: ledger.OpFault, Kind: ledger.KindDroplet, ID: "1", Name: "c", Cause: "fault-1"}}, base, true,
		},
		"other kind of the same id": {
			[]ledger.Entry{created, {Op: ledger.OpRemoved, Kind: ledger.KindKey, ID: "1"}}, base, true,
		},
	}
}

func TestRecordsSumUpALife(t *testing.T) {
	for name, test := range lives() {
		t.Run(name, func(t *testing.T) {
			l, path := newLedger(t)
			for _, entry := range test.entries {
				require.NoError(t, l.Append(entry))
			}
			for from, l := range map[string]*ledger.Ledger{"memory": l, "file": reopen(t, path)} {
				records := l.Records()
				require.Len(t, records, 1, from)
				got := records[0]
				require.Equal(t, test.live, got.IsLive(), from)
				require.Equal(t, l.Entries()[0].Time, got.Created, from)
				if !test.live {
					require.Equal(t, l.Entries()[len(test.entries)-1].Time, *got.Removed, from)
				}
				test.want.Created, test.want.Removed = got.Created, got.Removed
				require.Equal(t, test.want, got, from)
			}
		})
	}
}

func TestATagMadeAgainIsAnotherRecord(t *testing.T) {
	l, path := newLedger(t)
	for _, op := range []ledger.Op{ledger.OpCreated, ledger.OpRemoved, ledger.OpCreated} {
		require.NoError(t, l.Append(ledger.Entry{Op: op, Kind: ledger.KindTag, ID: "blue", Name: "blue"}))
	}
	again := reopen(t, path)
	require.Len(t, again.Records(ledger.KindTag), 2)
	require.Len(t, again.Live(ledger.KindTag), 1)
	require.False(t, again.Records()[0].IsLive())
	require.NoError(t, again.Append(ledger.Entry{Op: ledger.OpRemoved, Kind: ledger.KindTag, ID: "blue"}))
	require.Empty(t, again.Live())
}

func TestKindsAreToldApart(t *testing.T) {
	l, err := ledger.Open("")
	require.NoError(t, err)
	kinds := []ledger.Kind{ledger.KindDroplet, ledger.KindKey, ledger.KindTag, ledger.KindServer}
	for _, kind := range kinds {
		require.NoError(t, l.Append(ledger.Entry{Op: ledger.OpCreated, Kind: kind, ID: "1"}))
	}
	for _, kind := range kinds {
		live := l.Live(kind)
		require.Len(t, live, 1)
		require.Equal(t, kind, live[0].Kind)
	}
	require.Len(t, l.Live(ledger.KindKey, ledger.KindTag), 2)
	require.Len(t, l.Records(), 4)
	require.Equal(t, []ledger.Record{}, l.Live("nothing"), "an empty list is [] in JSON")
}

func TestConcurrentWritersLoseNothing(t *testing.T) {
	l, path := newLedger(t)
	var writers sync.WaitGroup
	for writer := range 8 {
		writers.Go(func() {
			for i := range 50 {
				id := strconv.Itoa(writer*1000 + i)
				if l.Append(entry(ledger.OpCreated, id)) != nil || i%2 == 0 && l.Append(entry(ledger.OpRemoved, id)) != nil {
					panic("not written")
				}
				l.Live()
			}
		})
	}
	writers.Wait()
	again := reopen(t, path)
	require.Equal(t, l.Entries(), again.Entries())
	require.Equal(t, l.Records(), again.Records())
	require.Len(t, again.Live(), 8*25)
	var last ledger.Entry
	for i, entry := range again.Entries() {
		require.Equal(t, i+1, entry.Seq)
		require.False(t, entry.Time.Before(last.Time), "later lines are not earlier in time")
		last = entry
	}
}

func TestLongEntriesCanBeReadAgain(t *testing.T) {
	l, path := newLedger(t)
	long := entry(ledger.OpCreated, "1")
	long.Data = json.RawMessage(`"` + strings.Repeat("x", 3<<20) + `"`)
	require.NoError(t, l.Append(long))
	longer := entry(ledger.OpCreated, "2")
	longer.Data = json.RawMessage(`"` + strings.Repeat("x", 8<<20) + `"`)
	require.EqualError(t, l.Append(longer), "encoding ledger entry: longer than 8388608 bytes")
	require.Len(t, l.Records(), 1, "what cannot be kept is not remembered either")
	require.NoError(t, l.Append(entry(ledger.OpCreated, "3")))
	require.Len(t, reopen(t, path).Live(), 2)
}

func TestBrokenDataIsRefused(t *testing.T) {
	l, path := newLedger(t)
	broken := entry(ledger.OpCreated, "1")
	broken.Data = json.RawMessage(`{"n":`)
	require.ErrorContains(t, l.Append(broken), "encoding ledger entry: ")
	require.Empty(t, l.Entries())
	require.Empty(t, reopen(t, path).Entries())
}

func TestAClosedLedgerCanStillBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l := reopen(t, path)
	require.NoError(t, l.Append(entry(ledger.OpCreated, "1")))
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	require.Len(t, l.Live(), 1)
}

func TestOpenTellsWhatIsDamaged(t *testing.T) {
	good := `{"seq":1,"time":"2026-01-02T03:04:05Z","op":"created","kind":"key","id":"1"}` + "\n"
	for name, test := range map[string]struct{ content, want string }{
		"nonsense first":    {"nonsense\n" + good, "reading ledger at byte 0: parsing ledger line: invalid character 'o' in literal null (expecting 'u')"},
		"nonsense later":    {good + "x\n", "reading ledger at byte 77: parsing ledger line: invalid character 'x' looking for beginning of value"},
		"empty line":        {good + "\n", "reading ledger at byte 77: parsing ledger line: unexpected end of JSON input"},
		"other shape":       {"[]\n", "reading ledger at byte 0: parsing ledger line: json: cannot unmarshal array into Go value of type ledger.Entry"},
		"two on one line":   {"{}{}\n", "reading ledger at byte 0: parsing ledger line: invalid character '{' after top-level value"},
		"no time":           {`{"time":"noon"}` + "\n", `reading ledger at byte 0: parsing ledger line: parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"`},
		"torn in the midst": {`{"seq":1,"op` + "\n" + good, "reading ledger at byte 0: parsing ledger line: unexpected end of JSON input"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.jsonl")
			require.NoError(t, os.WriteFile(path, []byte(test.content), 0o600))
			_, err := ledger.Open(path)
			require.EqualError(t, err, test.want)
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, test.content, string(content), "what is damaged is left to look at")
		})
	}
}

func TestOpenNeedsAFile(t *testing.T) {
	_, err := ledger.Open(t.TempDir())
	require.ErrorContains(t, err, "opening ledger: ")
	_, err = ledger.Open(filepath.Join(t.TempDir(), "missing", "ledger.jsonl"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestTheFileIsForItsOwnerOnly(t *testing.T) {
	_, path := newLedger(t)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// TestOpenAfterACrashAnywhere lets a crash leave anything behind.
func TestOpenAfterACrashAnywhere(t *testing.T) {
	check := func(content []byte) {
		path := filepath.Join(t.TempDir(), "ledger.jsonl")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		l, err := ledger.Open(path)
		if err != nil {
			return
		}
		before := len(l.Entries())
		require.NoError(t, l.Append(entry(ledger.OpCreated, "fuzz")))
		live := len(l.Live())
		require.NoError(t, l.Close())
		again := reopen(t, path)
		require.Len(t, again.Entries(), before+1)
		require.Len(t, again.Live(), live)
	}
	check([]byte(`{"seq":1,"op":"created","kind":"key","id":"1"}` + "\n" + `{"seq":2,"op":"removed","kind":"key","id":"1"}` + "\n"))
	check([]byte(`{"op":"changed","kind":"key","id":"1"}` + "\n" + `{"op":`))
	check([]byte("\n\n"))
}
