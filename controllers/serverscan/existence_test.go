package serverscan

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Only a server that was listed before, by a credential that lists others, is told as gone: a health check may replace it.
func TestExistence(t *testing.T) {
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	for _, c := range []struct {
		was            metav1.ConditionStatus
		listed, others bool
		want           metav1.ConditionStatus
	}{
		{"", true, true, yes}, {unknown, true, false, yes}, {no, true, true, yes}, {yes, true, true, yes},
		{"", false, true, unknown}, {unknown, false, true, unknown}, {unknown, false, false, unknown},
		{yes, false, true, no}, {no, false, true, no}, {no, false, false, no},
		{yes, false, false, yes},
	} {
		got, reason, _ := existence(c.was, c.listed, c.others)
		require.Equal(t, c.want, got, "%+v", c)
		require.NotEmpty(t, reason)
	}
}
