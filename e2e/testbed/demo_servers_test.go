package testbed

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// story are binaries that tell what a good run of the demo tells.
func story() map[string]string {
	return map[string]string{
		"localcloud": `case "$1" in ls) echo "ID NAME";; ledger) echo "created, removed";; leftovers) echo "nothing is left";; esac`,
		"localkube":  `case "$2" in get) echo "digitalocean Active";; explain) echo "KIND: DigitaloceanMachine";; scale) echo scaled; echo x > scaled;; delete) echo deleted; echo x > deleted;; apply) cat > /dev/null;; esac`,
		"drover": `case "$*" in
"get -o name") printf 'digitaloceanmachine/hello-1\ndigitaloceanmachine/hello-2\n';;
"get -o wide") echo "wide";;
get) echo x >> asked; echo "NAME PHASE"
  if [ -f deleted ]; then exit 0; fi
  if [ $(wc -l < asked) -gt 1 ]; then echo "hello-1 Running 5s"; else echo "hello-1 Creating 1s"; fi
  [ -f scaled ] || echo "hello-2 Running 5s";;
"ssh "*status*) echo "status: done";;
"ssh "*) echo "bootstrapped $2";;
"why "*) echo "$2 is well";;
esac`,
		"manager": `echo "kind: Everything"`,
	}
}

func TestDemoServers(t *testing.T) {
	b := startUp(t)
	b.programs(t, story())
	require.NoError(t, b.DemoServers(t.Context()))
	requireGolden(t, "demo-servers-screen.txt", b.stable(b.screen.String()))
	require.Contains(t, b.calls(t), "localcloud [clean] [--state-dir] [DIR/.drover/cloud]\n")
	require.Contains(t, b.calls(t), "drover [ssh] [hello-2] [--] [cat] [/var/lib/hello/bootstrapped]\n")
	require.NotContains(t, b.entries(t), "cloud")
}

// Whatever fails, it is explained, and everything is taken away.
func TestDemoThatFails(t *testing.T) {
	for name, test := range map[string]struct {
		program, script string
		want            string
		explained       bool
	}{
		"coming up":  {"manager", "exit 1", "Drover: install: running manager manifests", false},
		"the driver": {"localkube", `case "$2" in get) exit 1;; apply) cat > /dev/null;; esac`, "kubectl get nodedriver digitalocean: exit status 1", true},
		"no machine": {"drover", `case "$*" in get) printf 'NAME\na Running 1s\nb Running 1s\n';; esac`, "no machine to log in to", false},
		"leftovers":  {"localcloud", `[ "$1" = leftovers ] && { echo "droplet 1"; exit 1; }; exit 0`, "localcloud leftovers: exit status 1", true},
		"going down": {"localcloud", `[ "$1" = clean ] && exit 1; exit 0`, "running localcloud clean", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := startUp(t)
			b.programs(t, story())
			b.program(t, test.program, test.script)
			require.ErrorContains(t, b.DemoServers(t.Context()), test.want)
			require.Contains(t, b.calls(t), "localcloud [clean]")
			require.NotContains(t, b.screen.String(), "Done in")
			require.Equal(t, test.explained, strings.Contains(b.screen.String(), "$ drover why hello-2\nhello-2 is well\n"))
		})
	}
}

func TestMachineNames(t *testing.T) {
	b := newBench(t)
	for out, want := range map[string][]string{
		"":          nil,
		"a\nb\n":    {"a", "b"},
		"x/a\ny/b":  {"a", "b"},
		"x.y/z/a\n": {"a"},
	} {
		b.programs(t, map[string]string{"drover": "printf " + quote(out)})
		names, err := b.names(t.Context(), "drover", "get", "-o", "name")
		require.NoError(t, err)
		require.ElementsMatch(t, want, names)
	}
	b.programs(t, map[string]string{"drover": "exit 1"})
	_, err := b.names(t.Context(), "drover", "get", "-o", "name")
	require.EqualError(t, err, "running drover get -o name: exit status 1\n")
	require.ErrorContains(t, b.explain(t.Context()), "running drover get -o name")
}
