package explain

// resultAdvice is by the reason a Job itself gave for its failure (jobrunner/operation, driver), and by the reasons for
// which the manager can make no Job (controllers/machine). The driver's own message stands before it on the screen.
var resultAdvice = map[string]advice{
	"Cancelled":                  {waits: true, says: "The Job was told to stop, and saved what it knew: a server that it asked for is taken by the next attempt, or looked for."},
	"RequestInvalid":             {says: "The Job did not understand what it was asked for.", next: []string{"The manager and the image of its Jobs must be of the same version"}},
	"JobFailed":                  {says: "The Job failed inside itself.", next: []string{nextLogs, nextRetry}},
	"DiskFull":                   {waits: true, says: "The disk of the Job is full.", next: []string{"See the space of the node that ran it, and whether the driver writes much: {cmd} logs {name} -n {ns}"}},
	"OptionsInvalid":             {says: "The driver does not take an option of the machine.", next: []string{"See what fields there are: kubectl explain {plural}.spec --api-version=rke-machine.cattle.io/v1", nextTemplate, nextItself}},
	"StateUnreadable":            {says: "The machine's state cannot be read.", next: []string{"Restore the Secret {state} from a backup if there is one", nextCloud}},
	"StateTooLarge":              {says: "The driver's record is larger than a Secret can hold.", next: []string{"Ask the driver's author; a smaller file option may help", nextLogs}},
	"StateUnwritable":            {waits: true, says: "The Job could not write the machine's state.", next: []string{"See whether the management cluster's API can be reached from its pods, and whether a policy or quota forbids to write Secret {state}", nextLogs}},
	"DriverUnavailable":          {waits: true, says: "The driver's binary could not be had.", next: []string{nextDriver, nextLogs}},
	"DriverUnresponsive":         {says: "The driver did not answer in time.", next: []string{nextLogs, nextRetry}},
	"FlagsInvalid":               {says: "The driver's flags cannot be read.", next: []string{nextDriver}},
	"PreCreateCheckFailed":       {says: "The driver's own checks before creating failed; no server was asked for.", next: []string{nextLogs}},
	"CreateFailed":               {says: "The driver could not make the server."},
	"RemoveFailed":               {says: "The driver could not remove the server.", next: []string{nextLogs, nextCloud}},
	"LookupFailed":               {waits: true, says: "It could not be found out whether a server exists, so none was made or given up.", next: []string{nextLogs}},
	"ServerGone":                 {says: "The server went away while it was waited for.", next: []string{"See in the cloud who removed it", nextRetry}},
	"ServerNotRunning":           {says: "The server did not get to run in time.", next: []string{"Look at the server {instance} in the cloud: its console may tell", nextRetry}},
	"ServerIncomplete":           {waits: true, says: "An earlier attempt left an unfinished server, which was removed."},
	"UserDataInvalid":            {says: "The bootstrap data and the machine's own user data cannot be merged.", next: []string{"The message above tells which part and line: correct the user data in {where}, or the Secret {bootstrap}", "It is read again as soon as it changes"}},
	"BootstrapFormatUnsupported": {says: "This driver takes no user data, so the bootstrap data must be a shell script.", next: []string{"Use a bootstrap provider that writes a script, or a Secret of your own that begins with #!"}},
	"BootstrapFailed":            {says: "The bootstrap script failed on the server.", next: []string{nextLogs, nextLook, nextReplace}},
	"BootstrapInterrupted":       {says: "The bootstrap script was interrupted on the server and is not run twice.", next: []string{nextLook, nextReplace}},
	"SSHUnreachable":             {says: "The server's SSH cannot be reached from the management cluster.", next: []string{"See whether the cloud's firewall or security group lets the management cluster's pods reach the server's SSH port, and whether its image runs sshd", nextLogs, nextRetry}},
	"SSHUnauthorized":            {says: "The host does not let the machine's SSH user in.", next: []string{"Authorize the key on the host that the message names, or set the user and the key that the host knows", nextLogs, nextRetry}},
	"HostTaken":                  {waits: true, says: "The host belongs to another machine, so nothing was run on it.", next: []string{"Remove the machine that the message names, or give this one another host in {where}; then it is tried again by itself"}},
	"SSHKeyMissing":              {says: "There is no SSH key for the server, and this driver needs one.", next: []string{"Give the driver's option for the SSH key in {where}"}},
	"CacheIncomplete":            {says: "The cached driver binary is not whole.", next: []string{"Have the driver read again by changing spec.version of the NodeDriver {driver}", nextDriver}},
	"NamespaceTerminating":       {says: "The namespace is being deleted, and no Job can be made in it any more.", next: []string{nextCloud, nextAbandon}},
	"JobRefused":                 {says: "The management cluster refuses the Job or what it needs.", next: []string{"The message above names the policy or quota: correct it for namespace {ns}", "Pods of Drover meet the restricted Pod Security Standard"}},
}

const nextLook = "Look at the server: {cmd} ssh {name} -n {ns}"

// conditionAdvice finds the advice for a reason of a machine's condition, wherever the reason comes from.
func conditionAdvice(reason string) (advice, bool) {
	for _, table := range []map[string]advice{machineAdvice, jobAdvice, resultAdvice} {
		if about, known := table[reason]; known {
			return about, true
		}
	}
	return advice{}, false
}

// failureAdvice finds the advice for the reason with which an attempt ended.
func failureAdvice(reason string) advice {
	for _, table := range []map[string]advice{resultAdvice, jobAdvice, machineAdvice} {
		if about, known := table[reason]; known {
			return about
		}
	}
	return advice{}
}
