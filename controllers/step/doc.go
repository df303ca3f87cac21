// Package step contains the steps from which every controller of Drover is built: an ordered list
// of steps, each with one condition, and the outcomes of a step.
//
//	err := step.Run(ctx, scope, conditions, step.Of(ClusterReady, reason, r.awaitCluster), step.Of(CreateJob, reason, r.observeJob))
//	conditions.Summarize(Ready, reason, order...)
//	result, err := step.Result(err)
//
// A step returns nil (its condition becomes True and the next step runs), Wait or Progress (it
// waits for an event), Stall (it cannot succeed until the spec changes), or any other error
// (retried with back-off).
package step
