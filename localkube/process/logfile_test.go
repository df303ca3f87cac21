package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/process"
)

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	require.Empty(t, process.Tail(path, 3), "no log is no error: it only decorates one")
	for _, tt := range []struct {
		content string
		lines   int
		want    string
	}{
		{"", 3, ""},
		{"one", 3, "one"},
		{"one\ntwo\n", 3, "one\ntwo"},
		{"one\ntwo\nthree\n", 2, "two\nthree"},
		{"one\ntwo\n\n\n", 1, "two"},
		{"one\n", 0, ""},
		{"panic: disk full\n\ngoroutine 1 [running]:\nmain.main()\n\t/main.go:1\n\ngoroutine 7 [select]:\n", 8, "panic: disk full"},
		{"up\ngoroutine 1 [running]:\nmain.main()\n", 8, "up"},
		{"goroutine 1 [running]:\nmain.main()\n", 8, ""},
		{"the goroutine 1 [running]:\nend\n", 8, "the goroutine 1 [running]:\nend"},
		{`{"msg":"full","stacktrace":"a\n\tb"}` + "\nend\n", 8, `{"msg":"full"}` + "\nend"},
		{"goroutine pools are fine\nend\n", 8, "goroutine pools are fine\nend"},
	} {
		require.NoError(t, os.WriteFile(path, []byte(tt.content), 0o600))
		require.Equal(t, tt.want, process.Tail(path, tt.lines), "%q", tt.content)
	}
}

func TestTail_reads_the_end_of_a_large_log(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var content strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&content, "line %d\n", i)
	}
	require.NoError(t, os.WriteFile(path, []byte(content.String()), 0o600))
	require.Equal(t, "line 9998\nline 9999", process.Tail(path, 2))
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x", 1<<20)), 0o600))
	require.LessOrEqual(t, len(process.Tail(path, 8)), 16<<10, "one endless line does not fill an error message")
}

func TestSupervisor_keeps_logs_private_and_appends(t *testing.T) {
	log := filepath.Join(t.TempDir(), "logs", "x.log")
	for range 2 {
		sup := process.New()
		require.NoError(t, sup.Start(shell("x", log, "echo out; echo err >&2; exit 1")))
		<-sup.Failed()
		sup.StopAll(0)
	}
	raw, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, "out\nerr\nout\nerr\n", string(raw))
	info, err := os.Stat(log)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestSupervisor_sets_a_large_log_aside(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(log, nil, 0o600))
	require.NoError(t, os.Truncate(log, 16<<20+1))
	sup := process.New()
	require.NoError(t, sup.Start(shell("x", log, "echo new; exit 1")))
	<-sup.Failed()
	sup.StopAll(0)
	raw, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, "new\n", string(raw))
	old, err := os.Stat(log + ".old")
	require.NoError(t, err)
	require.EqualValues(t, 16<<20+1, old.Size())
}
