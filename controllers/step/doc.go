// Package step is the small kit that every controller of Drover is built from: an ordered list of steps, each owning one
// condition, and the few ways in which a step can end.
//
//	err := step.Run(ctx, scope, conditions, step.Of(ClusterReady, reason, r.awaitCluster), step.Of(CreateJob, reason, r.observeJob))
//	conditions.Summarize(Ready, reason, order...)
//	result, err := step.Result(err)
//
// A step ends with nil (its condition becomes True and the next step runs), Wait or Progress (something else must happen
// first), Stall (nothing will happen until the spec changes), or any other error (tried again with back-off).
package step
