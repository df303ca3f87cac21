package cloud

import (
	"fmt"
	"strings"

	"github.com/drover-project/drover/e2e/cloud/ledger"
)

// droverTag is what the names of Drover's tags begin with.
const droverTag = "drover-"

// TestingT is the part of testing.T that the assertions need.
type TestingT interface {
	Helper()
	Errorf(format string, args ...any)
}

// Leftovers describes everything that still exists: droplets, keys, servers, Drover's tags,
// and what the host still has of them. A user's own tags stay by nature and do not count.
func (c *Cloud) Leftovers() []string {
	var left []string
	for _, record := range c.Live() {
		if record.Kind == ledger.KindTag && !strings.HasPrefix(record.Name, droverTag) {
			continue
		}
		left = append(left, fmt.Sprintf("%s %s (%s), created %s by request %s",
			record.Kind, record.ID, record.Name, record.Created.Format("15:04:05.000"), record.RequestID))
	}
	if c.real != nil {
		left = append(left, c.real.Leftovers()...)
	}
	return left
}

// AssertNothingLeft fails the test for each thing that still exists.
func (c *Cloud) AssertNothingLeft(t TestingT) bool {
	t.Helper()
	left := c.Leftovers()
	for _, thing := range left {
		t.Errorf("left on the cloud: %s", thing)
	}
	return len(left) == 0
}
