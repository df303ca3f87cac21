package testbed

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// DemoServers shows the whole path on screen and removes every trace, also when a part of it fails.
func (t *Testbed) DemoServers(ctx context.Context) error {
	return t.present(ctx, []func(context.Context) error{
		t.shows("A registered driver has become kinds of its own",
			t.show("kubectl", "get", "nodedriver", "digitalocean"), t.show("kubectl", "explain", "digitaloceanmachine.spec.size")),
		t.shows("Two servers through the real DigitalOcean driver",
			t.show("kubectl", "apply", "--server-side", "-f", t.example("digitalocean.yaml")),
			t.showUntil(3*time.Minute, machinesRunning(2), "drover", "get"), t.show("drover", "get", "-o", "wide")),
		t.showLogin,
		t.shows("Scaling to one",
			t.show("kubectl", "scale", "machinedeployment", "hello", "--replicas", "1"),
			t.showUntil(2*time.Minute, machinesRunning(1), "drover", "get"), t.show("localcloud", "ls", stateDirFlag, t.CloudDir())),
		t.shows("Deleting the cluster",
			t.show("kubectl", "delete", "clusters.cluster.x-k8s.io", "hello", "--timeout", "2m"), t.show("drover", "get")),
		t.showNothingLeft(),
	})
}

// present brings everything up, shows the acts, and takes everything down.
func (t *Testbed) present(ctx context.Context, acts []func(context.Context) error) (err error) {
	start := time.Now()
	t.headline("Bringing everything up")
	defer func() {
		t.headline("Removing every trace")
		// The demo may have been interrupted: its objects must be removed nevertheless.
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

func (t *Testbed) showNothingLeft() func(context.Context) error {
	return t.shows("Nothing is left at the cloud; its ledger tells everything that ever was",
		t.show("localcloud", "ledger", stateDirFlag, t.CloudDir()), t.show("localcloud", "leftovers", stateDirFlag, t.CloudDir()))
}

// shows is an act that consists of commands.
func (t *Testbed) shows(headline string, commands ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		t.headline(headline)
		for _, show := range commands {
			if err := show(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

func (t *Testbed) showLogin(ctx context.Context) error {
	t.headline("Logging in with the key that came back")
	machines, err := t.names(ctx, "drover", "get", "-o", "name")
	if err != nil {
		return err
	}
	if len(machines) == 0 {
		return errors.New("no machine to log in to")
	}
	for _, name := range machines {
		// The server may restart its sshd while it still boots.
		done := func(out string) bool { return strings.Contains(out, "status: done") }
		if err := t.showUntil(5*time.Minute, done, "drover", "ssh", name, "--", "cloud-init", "status", "--wait")(ctx); err != nil {
			return err
		}
		if err := t.show("drover", "ssh", name, "--", "cat", "/var/lib/hello/bootstrapped")(ctx); err != nil {
			return err
		}
	}
	return t.show("drover", "why", machines[0])(ctx)
}

// explain shows the state of clusters and machines when an act failed, unless a user stopped it.
func (t *Testbed) explain(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	default:
	}
	t.headline("That failed; the current state")
	clusters, err := t.names(ctx, "kubectl", "get", "clusters.cluster.x-k8s.io", "-o", "name")
	machines, machinesErr := t.names(ctx, "drover", "get", "-o", "name")
	errs := []error{err, machinesErr}
	for _, name := range clusters {
		errs = append(errs, t.show("drover", "why", "cluster/"+name)(ctx))
	}
	for _, name := range machines {
		errs = append(errs, t.show("drover", "why", name)(ctx))
	}
	return errors.Join(append(errs, t.show("kubectl", "-n", "drover-system", "logs", "deployment/drover-manager", "--tail", "20")(ctx))...)
}

// runningPhase is the phase in the table of drover get or of Machines, not a reason such as
// JobRunning.
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
