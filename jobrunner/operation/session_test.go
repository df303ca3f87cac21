package operation

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/jobrunner/operation/redact"
	"github.com/drover-project/drover/state"
)

func TestLog_keeps_the_end(t *testing.T) {
	var out bytes.Buffer
	log := newLog(&out, &redact.Redactor{})
	for range 3000 {
		log.printf("%s", strings.Repeat("x", 50))
	}
	log.printf("the end")
	require.LessOrEqual(t, len(log.ring.bytes()), state.MaxLogBytes)
	require.True(t, bytes.HasSuffix(log.ring.bytes(), []byte(" the end\n")))
	require.Equal(t, byte(':'), log.ring.bytes()[2], "it begins with a line")
}

func TestCancellable(t *testing.T) {
	parent, cancel := context.WithCancelCause(t.Context())
	ctx, stop := cancellable(parent)
	defer stop()
	cancel(errors.New("terminated"))
	<-ctx.Done()
	require.True(t, cancelled(context.Cause(ctx)))
}

func TestClip(t *testing.T) {
	require.Equal(t, "abc", clip("abc", 5))
	require.LessOrEqual(t, len(clip(strings.Repeat("ü", 10), 5)), 5)
}
