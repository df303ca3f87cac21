package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/duration"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/state"
)

// tellAttempt tells how the last attempt failed, by class.
func (d *decision) tellAttempt(last *rkev1.AttemptStatus) {
	failed := last.Outcome == string(state.Failed)
	why := d.resultReason(last)
	d.Blocker.Class, d.Blocker.Message = last.Class, clean(last.Message)
	class := cmp.Or(last.Class, rkev1.ClassUnknown)
	kind := why
	if failed {
		kind = strings.TrimSuffix(class+", "+why, ", ")
	}
	line := fmt.Sprintf("Attempt %d to %s the server: %s", last.Number, clean(last.Operation), strings.ToLower(clean(last.Outcome)))
	if kind != "" && !strings.EqualFold(kind, last.Outcome) {
		line += " (" + kind + ")"
	}
	if last.EndTime != nil {
		line += " " + age(d.Now, last.EndTime.Time) + " ago"
	}
	if message := clean(last.Message); message != "" {
		line += ": " + message
	}
	d.Verdict = append(d.Verdict, line)
	if failed {
		if why == rkev1.ServerMayExistReason {
			return // no class has anything to add
		}
		about, byClass := failureAdvice(why), d.adviceForClass(class)
		d.Verdict = appendNew(d.Verdict, d.words.fill(about.says))
		// What the cloud answered says best what to do; else the reason does, unless it says no more than to read on.
		if tellsWhatToDo(about) && !slices.Contains(cloudAnswers, class) {
			byClass = advice{}
		}
		d.say(byClass, d.words)
		d.say(advice{next: about.next}, d.words)
	}
}

// cloudAnswers are classes of failures that only the cloud's answer makes.
var cloudAnswers = []string{rkev1.ClassUnauthorized, rkev1.ClassQuota, rkev1.ClassCapacity, rkev1.ClassThrottled}

// tellsWhatToDo reports whether an advice is more than to read on or to try again.
func tellsWhatToDo(about advice) bool {
	return slices.ContainsFunc(about.next, func(next string) bool { return next != nextLogs && next != nextRetry && next != nextCloud })
}

// adviceForClass is the advice for a class; what to do about a credential depends on where it is.
func (d *decision) adviceForClass(class string) advice {
	about := classAdvice[class]
	switch {
	case class == rkev1.ClassInvalid && d.words["driver"] == "generic":
		return hostInvalid
	case class != rkev1.ClassUnauthorized:
		return about
	case !d.namesCredential():
		about.next = []string{nextOwnCredential, nextRetry}
	case d.Credential != nil && !d.Credential.Found:
		about.next = []string{nextMakeCredential, nextRetry}
	}
	return about
}

// resultReason is the one-word reason the Job left in the state Secret, if it is of this attempt.
func (d *decision) resultReason(last *rkev1.AttemptStatus) string {
	if d.State == nil || d.State.Result == nil {
		return ""
	}
	result := d.State.Result
	if result.Attempt != last.Number || string(result.Operation) != last.Operation {
		return ""
	}
	return clean(result.Reason)
}

func (d *decision) tellNextAttempt() {
	next := d.Machine.Status.NextAttemptTime
	if next == nil {
		return
	}
	if next.After(d.Now) {
		d.Verdict = append(d.Verdict, "The next attempt starts in "+duration.HumanDuration(next.Sub(d.Now))+".")
		return
	}
	d.Verdict = append(d.Verdict, "The next attempt is due.")
}

// tellAhead tells of the machine that asks the cloud first, while this one waits for it.
func (d *decision) tellAhead() {
	if d.Ahead == nil {
		if c := d.Machine.Condition(rkev1.CreateJobCondition); d.Machine.IsHeld() && c.Reason != rkev1.WaitingForRetryReason && d.Knows(facts.AheadPart) {
			d.Verdict = append(d.Verdict, "The machine that was refused is not there any more, or has its server: this one, or another that waits, asks next.")
		}
		return
	}
	last, line := d.Ahead.Status.LastAttempt, "Machine "+d.Ahead.Name+" asks first"
	if last != nil {
		line += fmt.Sprintf(": its attempt %d was refused (%s): %s", last.Number, last.Class, last.Message)
	}
	d.Verdict = append(d.Verdict, clean(line))
	switch next := d.Ahead.Status.NextAttemptTime; {
	case next == nil:
		d.Verdict = append(d.Verdict, "It asks again now.")
	case next.After(d.Now):
		d.Verdict = append(d.Verdict, "It asks again in "+duration.HumanDuration(next.Sub(d.Now))+".")
	default:
		d.Verdict = append(d.Verdict, "It is due to ask again.")
	}
}
