// Command manager runs Drover's controllers, its webhooks and, unless Cluster API is installed already, Cluster API's core.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	ctrl "sigs.k8s.io/controller-runtime"
)

// version is set by the linker.
var version = "dev"

// gcPercent lets the heap grow by half before it is collected, not to the double: most of it is caches, and a manager should
// be small. It costs some 0.02 s more of CPU per machine that comes up, and nothing at rest; $GOGC overrides it.
const gcPercent = 50

func main() {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(gcPercent)
	}
	if err := command(os.LookupEnv).ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}
