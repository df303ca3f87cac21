package explain

import "github.com/drover-project/drover/jobrunner"

// jobAdvice is by the reason of a Job that ended without a word from its pod, or does not start.
var jobAdvice = map[string]advice{
	jobrunner.DeadlineReason: {says: "The Job took longer than it may and was ended.",
		next: []string{nextLogs, "A slow cloud may need a longer deadline in the manager's settings"}},
	jobrunner.OutOfMemoryReason: {says: "The Job's pod used more memory than its limit.",
		next: []string{"Raise the memory limit that the manager gives Jobs"}},
	jobrunner.EvictedReason: {waits: true, says: "The Job's pod was evicted from its node.",
		next: []string{"See whether the management cluster's nodes have room: kubectl describe nodes"}},
	jobrunner.NodeLostReason: {waits: true, says: "The node of the Job's pod went away.",
		next: []string{"Wait: the next attempt starts from what the last one recorded"}},
	jobrunner.NodeSilentReason: {says: "The node of the Job's pod is silent, and so the Job cannot end.",
		next: []string{"Look at the node: kubectl get node {node}", "If its computer is off for good: kubectl delete node {node}",
			"If it is off, and will come back: kubectl taint node {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"}},
	jobrunner.KilledReason: {waits: true, says: "The Job's pod was killed.",
		next: []string{"Wait: the next attempt starts from what the last one recorded", "If it happens again, look at the management cluster's nodes: kubectl describe nodes"}},
	jobrunner.ImageReason: {says: "The image of the Job's pod cannot be pulled.",
		next: []string{"Correct the image, registry or pull secret that the manager gives Jobs", "Look at the pod: kubectl -n {podns} describe pods -l batch.kubernetes.io/job-name={job}"}},
	jobrunner.ResultMissingReason: {says: "The Job ended without telling how.",
		next: []string{nextLogs, "Look at its pod: kubectl -n {podns} describe pods -l batch.kubernetes.io/job-name={job}"}},
	jobrunner.ResultInvalidReason: {says: "What the Job told about its end cannot be read.",
		next: []string{nextLogs, "The image of the Job and the manager may be of different versions"}},
	jobrunner.JobGoneReason: {says: "The Job was deleted before it ended.",
		next: []string{"Wait: the next attempt starts from what the last one recorded", nextRetry}},
	jobrunner.PodPendingReason: {waits: true, says: "The Job's pod cannot start.",
		next: []string{"Look at the pod: kubectl -n {podns} describe pods -l batch.kubernetes.io/job-name={job}"}},
}
