package testbed

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Demo shows the whole path on screen and removes every trace, also when a part of it fails.
func (t *Testbed) Demo(ctx context.Context) (err error) {
	start := time.Now()
	t.headline("Bringing everything up")
	defer func() {
		t.headline("Removing every trace")
		// The demo may have been interrupted: what it made must go all the same.
		downCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
		defer cancel()
		err = errors.Join(err, t.Down(downCtx))
		if err == nil {
			t.headline(fmt.Sprintf("Done in %s", time.Since(start).Round(time.Second)))
		}
	}()
	if err := t.Up(ctx); err != nil {
		return err
	}
	for _, act := range []func(context.Context) error{t.showDriver, t.showCreate, t.showLogin, t.showScale, t.showDelete, t.showNothingLeft} {
		if err := act(ctx); err != nil {
			return errors.Join(err, t.explain(ctx))
		}
	}
	return nil
}

func (t *Testbed) showDriver(ctx context.Context) error {
	t.headline("A registered driver has become kinds of its own")
	if err := t.show(ctx, "kubectl get nodedriver digitalocean"); err != nil {
		return err
	}
	return t.show(ctx, "kubectl explain digitaloceanmachine.spec.size")
}

func (t *Testbed) showCreate(ctx context.Context) error {
	t.headline("Two servers through the real DigitalOcean driver")
	if err := t.show(ctx, "kubectl apply --server-side -f "+t.example("digitalocean.yaml")); err != nil {
		return err
	}
	if err := t.showUntil(ctx, 3*time.Minute, "drover get", t.machinesRunning(2)); err != nil {
		return err
	}
	return t.show(ctx, "drover get -o wide")
}

func (t *Testbed) showLogin(ctx context.Context) error {
	t.headline("Logging in with the key that came back")
	machines, err := t.machineNames(ctx)
	if err != nil {
		return err
	}
	for _, name := range machines {
		// The server may restart its sshd while it still boots.
		done := func(out string) bool { return strings.Contains(out, "status: done") }
		if err := t.showUntil(ctx, time.Minute, "drover ssh "+name+" -- cloud-init status --wait", done); err != nil {
			return err
		}
		if err := t.show(ctx, "drover ssh "+name+" -- cat /var/lib/hello/bootstrapped"); err != nil {
			return err
		}
	}
	return t.show(ctx, "drover why "+machines[0])
}

func (t *Testbed) showScale(ctx context.Context) error {
	t.headline("Scaling to one")
	if err := t.show(ctx, "kubectl scale machinedeployment hello --replicas 1"); err != nil {
		return err
	}
	if err := t.showUntil(ctx, 2*time.Minute, "drover get", t.machinesRunning(1)); err != nil {
		return err
	}
	return t.show(ctx, "localcloud ls --state-dir "+t.cloudDir())
}

func (t *Testbed) showDelete(ctx context.Context) error {
	t.headline("Deleting the cluster")
	if err := t.show(ctx, "kubectl delete cluster hello --timeout 2m"); err != nil {
		return err
	}
	return t.show(ctx, "drover get")
}

func (t *Testbed) showNothingLeft(ctx context.Context) error {
	t.headline("Nothing is left at the cloud; its ledger tells everything that ever was")
	if err := t.show(ctx, "localcloud ledger --state-dir "+t.cloudDir()); err != nil {
		return err
	}
	return t.show(ctx, "localcloud leftovers --state-dir "+t.cloudDir())
}

// explain shows what is known about the machines when an act failed.
func (t *Testbed) explain(ctx context.Context) error {
	t.headline("That failed; what is known")
	names, err := t.machineNames(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, t.show(ctx, "drover why "+name))
	}
	return errors.Join(append(errs, t.show(ctx, "kubectl -n drover-system logs deployment/drover-manager --tail 20"))...)
}

// runningPhase is the phase in the table of drover get, not a reason such as JobRunning.
var runningPhase = regexp.MustCompile(`\sRunning\s`)

// machinesRunning says when drover get lists exactly n machines and all run.
func (t *Testbed) machinesRunning(n int) func(string) bool {
	return func(out string) bool {
		lines := strings.Split(strings.TrimSpace(out), "\n")
		return len(lines) == n+1 && len(runningPhase.FindAllString(out, -1)) == n
	}
}

func (t *Testbed) machineNames(ctx context.Context) ([]string, error) {
	out, err := t.run(ctx, "drover", "get", "-o", "name")
	if err != nil {
		return nil, err
	}
	names := strings.Fields(out)
	for i := range names {
		names[i] = names[i][strings.LastIndex(names[i], "/")+1:]
	}
	return names, nil
}

func (t *Testbed) example(name string) string {
	return filepath.Join(filepath.Dir(t.BinDir), "examples", name)
}

func (t *Testbed) headline(text string) { t.say("\n\033[1m== %s\033[0m\n", text) }

// say writes to the screen; that it may be gone stops nothing.
func (t *Testbed) say(format string, args ...any) { _, _ = fmt.Fprintf(t.Out, format, args...) }

// show prints a command as a user would type it, and what it prints.
func (t *Testbed) show(ctx context.Context, line string) error {
	t.say("$ %s\n", t.readable(line))
	args := strings.Fields(line)
	path, err := t.lookup(args[0])
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = t.Env(), t.Out, t.Out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", t.readable(line), err)
	}
	return nil
}

// showUntil runs a command until its output is as wished, and prints the output when it changes.
func (t *Testbed) showUntil(ctx context.Context, limit time.Duration, line string, wished func(string) bool) error {
	t.say("$ %s   # until it is so\n", line)
	args := strings.Fields(line)
	seen := map[string]bool{}
	return t.await(ctx, limit, nil, "", func(ctx context.Context) error {
		out, err := t.run(ctx, args[0], args[1:]...)
		if err != nil {
			return err
		}
		if state := withoutAges(out); !seen[state] {
			seen[state] = true
			t.say("%s", out)
		}
		if !wished(out) {
			return errors.New("last seen:\n" + out)
		}
		return nil
	})
}

// withoutAges drops what changes by the passing of time alone.
func withoutAges(table string) string {
	var kept []string
	for field := range strings.FieldsSeq(table) {
		if _, err := time.ParseDuration(field); err != nil {
			kept = append(kept, field)
		}
	}
	return strings.Join(kept, " ")
}

func (t *Testbed) readable(line string) string {
	line = strings.ReplaceAll(line, " --state-dir "+t.cloudDir(), "")
	return strings.ReplaceAll(line, filepath.Dir(t.BinDir)+"/", "")
}
