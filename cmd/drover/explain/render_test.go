package explain

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func rendered(t *testing.T, r *Report) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, Render(&out, r))
	return out.String()
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestRenderOfLittle(t *testing.T) {
	require.Equal(t, "\x20 Unknown\n\nWHAT TO DO NEXT\n  Nothing.\n", strings.Replace(rendered(t, &Report{}), "  Unknown", "\x20 Unknown", 1))
	require.Equal(t, "GenericMachine shop/web-1  Running\n\nWHY\n  It runs.\n\nWHAT TO DO NEXT\n  Nothing.\n",
		rendered(t, &Report{Subject: "GenericMachine shop/web-1", Phase: "Running", Verdict: []string{"It runs."}, Next: []string{}}))
}

func TestRenderOfAll(t *testing.T) {
	since := noon.Add(-90 * time.Minute)
	report := &Report{
		Subject: "GenericMachine shop/web-1", Phase: "Creating", now: noon,
		Facts:   []Fact{{"driver", "generic"}, {"age", "2h"}},
		Verdict: []string{"First.", "Second."},
		Steps:   []Step{{Name: "ClusterReady", State: StepDone, Reason: "Ready", Since: &since}, {Name: "CreateJob", State: StepFailed, Reason: "JobRefused"}, {Name: "StateStored", State: StepPending}},
		Related: []Related{{"Cluster", "store", "paused"}, {"CAPI Machine", "web-1", ""}},
		Events: []Event{{Time: noon.Add(-2 * time.Second), Type: "Warning", Reason: "JobFailed", Object: "Job/x", Message: strings.Repeat("long ", 40), Count: 12},
			{Time: noon.Add(time.Hour), Type: "Normal", Reason: "Ahead", Object: "Job/x", Message: "of our clock", Count: 1}},
		Log:      &Log{Source: "the pod", Lines: []string{"one", strings.Repeat("x", 300)}},
		Problems: []string{"Secrets are forbidden"},
		Next:     []string{"Look: kubectl get pods", "Wait"},
	}
	require.Equal(t, `GenericMachine shop/web-1  Creating
  driver generic | age 2h

WHY
  First.
  Second.

STEPS
  ok    ClusterReady  Ready       90m
  fail  CreateJob     JobRefused  -
  -     StateStored   -           -

RELATED
  Cluster       store  paused
  CAPI Machine  web-1

EVENTS
  2s (x12)  Warning  JobFailed  Job/x  `+strings.Repeat("long ", 21)+`lo...
  0s        Normal   Ahead      Job/x  of our clock

LOG (end of the pod)
  one
  `+strings.Repeat("x", 237)+`...

COULD NOT BE READ
  Secrets are forbidden

WHAT TO DO NEXT
  1. Look: kubectl get pods
  2. Wait
`, rendered(t, report))
}

func TestRenderTellsThatItCouldNotWrite(t *testing.T) {
	full := errors.New("no space left on device")
	require.ErrorIs(t, Render(failingWriter{full}, &Report{}), full)
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func wrapped(text string) []string {
	var out strings.Builder
	wrap(&out, "  1. ", "     ", text)
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func TestWrap(t *testing.T) {
	word := strings.Repeat("w", 50)
	long := strings.Repeat("l", 150)
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing":          {"", []string{"  1. "}},
		"short":            {"a b", []string{"  1. a b"}},
		"fits exactly":     {word + " " + strings.Repeat("x", 54), []string{"  1. " + word + " " + strings.Repeat("x", 54)}},
		"one too many":     {word + " " + strings.Repeat("x", 55), []string{"  1. " + word, "     " + strings.Repeat("x", 55)}},
		"characters count": {strings.Repeat("ü", 50) + " " + strings.Repeat("ü", 54), []string{"  1. " + strings.Repeat("ü", 50) + " " + strings.Repeat("ü", 54)}},
		"a long word":      {"see " + long + " there", []string{"  1. see", "     " + long, "     there"}},
		"a command":        {"Look at it: kubectl get " + long, []string{"  1. Look at it:", "     kubectl get " + long}},
		"two commands":     {"Look: kubectl get " + word + "; drover why " + word, []string{"  1. Look: kubectl get " + word + ";", "     drover why " + word}},
		"then prose":       {"Edit: kubectl edit x; it is read again " + word + " " + word, []string{"  1. Edit: kubectl edit x; it is read again " + word, "     " + word}},
		"a name of a program in prose": {"the kubectl " + word + " " + word + " " + word,
			[]string{"  1. the kubectl " + word, "     " + word + " " + word}},
		"quotes with a semicolon": {"Do: kubectl patch -p 'a; " + word + "' " + word + " " + word, []string{"  1. Do:", "     kubectl patch -p 'a; " + word + "' " + word + " " + word}},
		"a quote in quotes":       {`Do: kubectl patch -p 'it'\''s; ` + word + "' " + word, []string{"  1. Do:", `     kubectl patch -p 'it'\''s; ` + word + "' " + word}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, wrapped(c.text))
		})
	}
}

func TestShorten(t *testing.T) {
	require.Equal(t, "abcde", shorten("abcde", 5))
	require.Equal(t, "ab...", shorten("abcdef", 5))
	require.Equal(t, "üü...", shorten("üüüüüü", 5))
}
