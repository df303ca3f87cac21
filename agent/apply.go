package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"

	"k8s.io/utils/clock"

	"github.com/drover-project/drover/api/plan"
)

// failure is a step of a plan that could not be done.
type failure struct {
	step string
	err  error
	// tail is the end of the output of the step's command.
	tail string
}

func (f *failure) Error() string { return f.step + ": " + f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

// applier does the steps of one attempt at a plan.
type applier struct {
	runner *Runner
	clock  clock.PassiveClock
	// note writes the journal. Until it has, nothing follows.
	note func(Journal) error
	// begin is called with each instruction before it runs.
	begin func(step string)
	// fault injects errors in tests. It is called before each step and each write of the journal.
	fault func(point string) error
}

// apply applies the rest of a plan and returns its journal. It returns an error only if the journal
// cannot be written or the context ends. A failed step is in the journal.
func (a *applier) apply(ctx context.Context, p plan.Plan, j Journal) (Journal, error) {
	var err error
	if j, err = a.steps(ctx, p, j); err == nil {
		return j, nil
	}
	var failed *failure
	if !errors.As(err, &failed) || ctx.Err() != nil {
		return j, err
	}
	j.Phase, j.Ended, j.Successes = Failed, a.clock.Now(), 0
	j.Failures++
	j.Step, j.Message, j.Tail = failed.step, plan.Head(failed.err.Error(), plan.MaxMessageBytes), plan.Tail(failed.tail, plan.MaxTailBytes)
	return j, a.save(j, "failure")
}

func (a *applier) steps(ctx context.Context, p plan.Plan, j Journal) (Journal, error) {
	if p.Error != "" {
		return j, &failure{step: "plan", err: errors.New(p.Error)}
	}
	if !j.FilesDone {
		for _, file := range p.Files {
			if err := a.fault("file " + file.Path); err != nil {
				return j, &failure{step: "file " + file.Path, err: err}
			}
			if err := putFile(file); err != nil {
				return j, &failure{step: "file " + file.Path, err: err}
			}
		}
		j.FilesDone = true
		if err := a.save(j, "files"); err != nil {
			return j, err
		}
	}
	for j.InstructionsDone < len(p.Instructions) {
		var err error
		if j, err = a.instruction(ctx, p.Instructions[j.InstructionsDone], j); err != nil {
			return j, err
		}
	}
	j.Phase, j.Ended, j.Failures = Succeeded, a.clock.Now(), 0
	j.Successes++
	j.Step, j.Message, j.Tail = "", "", ""
	return j, a.save(j, "success")
}

func (a *applier) instruction(ctx context.Context, i plan.Instruction, j Journal) (Journal, error) {
	id := fmt.Sprintf("%.12s-%d", j.Checksum, j.InstructionsDone)
	step := "instruction " + i.Name
	if i.Name == "" {
		step += strconv.Itoa(j.InstructionsDone)
	}
	if err := a.fault(step); err != nil {
		return j, &failure{step: step, err: err}
	}
	a.begin(step)
	killLeft(filepath.Join(a.runner.Work, id))
	timeout := cmp.Or(a.runner.Timeout, instructionTimeout)
	limited, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it has not ended within %s", timeout))
	defer cancel()
	result, err := a.runner.run(limited, id, i.Command, j.Attempt)
	if i.SaveOutput && i.Name != "" && result.exit >= 0 {
		j.Output = saved(j.Output, i.Name, result.both)
	}
	if err != nil {
		return j, &failure{step: step, err: err, tail: string(result.both)}
	}
	j.InstructionsDone++
	return j, a.save(j, step)
}

// save writes the journal. It returns the journal's own error, so that the caller keeps its state
// and tries the write again.
func (a *applier) save(j Journal, of string) error {
	if err := a.fault("journal of " + of); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return a.note(j)
}

// saved returns a new map of the outputs with one more, so that earlier journals keep theirs.
// Outputs over the limit lose their beginning.
func saved(output map[string][]byte, name string, content []byte) map[string][]byte {
	all := map[string][]byte{}
	maps.Copy(all, output)
	delete(all, name)
	room := maxSavedBytes
	for _, other := range all {
		room -= len(other)
	}
	all[name] = content[max(0, len(content)-max(0, room)):]
	return all
}
