package explain

import (
	"fmt"

	"github.com/drover-project/drover/cmd/drover/facts"
)

// logLines is how many lines of a log fit on one screen beside the rest.
const logLines = 8

// machineLog is the end of the log of the Job that runs, else of the last that was kept: the state Secret's, else the tail in the
// status.
func machineLog(s *facts.Snapshot) *Log {
	if s.Live != "" {
		return newLog("what Job "+s.Jobs[0].Name+" says now", s.Live)
	}
	if s.State != nil && s.State.Log != "" {
		source := "log.txt of Secret " + s.State.Name
		if result := s.State.Result; result != nil {
			source += fmt.Sprintf(", attempt %d to %s", result.Attempt, result.Operation)
		}
		return newLog(source, s.State.Log)
	}
	if s.Machine == nil || s.Machine.Status.LastAttempt == nil {
		return nil
	}
	last := s.Machine.Status.LastAttempt
	return newLog(fmt.Sprintf("status.lastAttempt.logTail, attempt %d to %s", last.Number, last.Operation), last.LogTail)
}

func newLog(source, text string) *Log {
	lines := lastLines(text, logLines)
	if len(lines) == 0 {
		return nil
	}
	return &Log{Source: clean(source), Lines: lines}
}
