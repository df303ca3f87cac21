package testbed

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Demo shows the whole path on screen and removes every trace, also when a part of it fails.
func (t *Testbed) Demo(ctx context.Context) error {
	return t.present(ctx, []func(context.Context) error{
		t.shows("A registered driver has become kinds of its own",
			[]string{"kubectl", "get", "nodedriver", "digitalocean"}, []string{"kubectl", "explain", "digitaloceanmachine.spec.size"}),
		t.showCreate, t.showLogin, t.showScale,
		t.shows("Deleting the cluster",
			[]string{"kubectl", "delete", "cluster", "hello", "--timeout", "2m"}, []string{"drover", "get"}),
		t.showNothingLeft,
	})
}

// present brings everything up, shows the acts, and takes everything down.
func (t *Testbed) present(ctx context.Context, acts []func(context.Context) error) (err error) {
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
	for _, act := range acts {
		if err := act(ctx); err != nil {
			return errors.Join(err, t.explain(ctx))
		}
	}
	return nil
}

func (t *Testbed) showNothingLeft(ctx context.Context) error {
	return t.shows("Nothing is left at the cloud; its ledger tells everything that ever was",
		[]string{"localcloud", "ledger", stateDirFlag, t.CloudDir()}, []string{"localcloud", "leftovers", stateDirFlag, t.CloudDir()})(ctx)
}

// shows is an act that consists of commands.
func (t *Testbed) shows(headline string, commands ...[]string) func(context.Context) error {
	return func(ctx context.Context) error {
		t.headline(headline)
		for _, command := range commands {
			if err := t.show(ctx, command...); err != nil {
				return err
			}
		}
		return nil
	}
}

func (t *Testbed) showCreate(ctx context.Context) error {
	t.headline("Two servers through the real DigitalOcean driver")
	if err := t.show(ctx, "kubectl", "apply", "--server-side", "-f", t.example("digitalocean.yaml")); err != nil {
		return err
	}
	if err := t.showUntil(ctx, 3*time.Minute, machinesRunning(2), "drover", "get"); err != nil {
		return err
	}
	return t.show(ctx, "drover", "get", "-o", "wide")
}

func (t *Testbed) showLogin(ctx context.Context) error {
	t.headline("Logging in with the key that came back")
	machines, err := t.names(ctx, "drover", "get", "-o", "name")
	if err != nil {
		return err
	}
	if len(machines) == 0 {
		return errors.New("there is no machine to log in to")
	}
	for _, name := range machines {
		// The server may restart its sshd while it still boots.
		done := func(out string) bool { return strings.Contains(out, "status: done") }
		if err := t.showUntil(ctx, 5*time.Minute, done, "drover", "ssh", name, "--", "cloud-init", "status", "--wait"); err != nil {
			return err
		}
		if err := t.show(ctx, "drover", "ssh", name, "--", "cat", "/var/lib/hello/bootstrapped"); err != nil {
			return err
		}
	}
	return t.show(ctx, "drover", "why", machines[0])
}

func (t *Testbed) showScale(ctx context.Context) error {
	t.headline("Scaling to one")
	if err := t.show(ctx, "kubectl", "scale", "machinedeployment", "hello", "--replicas", "1"); err != nil {
		return err
	}
	if err := t.showUntil(ctx, 2*time.Minute, machinesRunning(1), "drover", "get"); err != nil {
		return err
	}
	return t.show(ctx, "localcloud", "ls", stateDirFlag, t.CloudDir())
}

// explain shows what is known about clusters and machines when an act failed, unless somebody stopped it.
func (t *Testbed) explain(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	default:
	}
	t.headline("That failed; what is known")
	clusters, err := t.names(ctx, "kubectl", "get", "clusters.cluster.x-k8s.io", "-o", "name")
	machines, machinesErr := t.names(ctx, "drover", "get", "-o", "name")
	errs := []error{err, machinesErr}
	for _, name := range clusters {
		errs = append(errs, t.show(ctx, "drover", "why", "cluster/"+name))
	}
	for _, name := range machines {
		errs = append(errs, t.show(ctx, "drover", "why", name))
	}
	return errors.Join(append(errs, t.show(ctx, "kubectl", "-n", "drover-system", "logs", "deployment/drover-manager", "--tail", "20"))...)
}

// runningPhase is the phase in the table of drover get, not a reason such as JobRunning.
var runningPhase = regexp.MustCompile(`\sRunning\s`)

// machinesRunning says when drover get lists exactly n machines and all run.
func machinesRunning(n int) func(string) bool {
	return func(out string) bool {
		lines := strings.Split(strings.TrimSpace(out), "\n")
		return len(lines) == n+1 && len(runningPhase.FindAllString(out, -1)) == n
	}
}

// names are those that a command prints with -o name, without their kinds.
func (t *Testbed) names(ctx context.Context, command ...string) ([]string, error) {
	out, err := t.run(ctx, command[0], command[1:]...)
	if err != nil {
		return nil, err
	}
	names := strings.Fields(out)
	for i := range names {
		names[i] = names[i][strings.LastIndex(names[i], "/")+1:]
	}
	return names, nil
}
