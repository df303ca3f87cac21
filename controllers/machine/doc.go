// Package machine reconciles <X>Machines, the kinds made from drivers: it makes servers for them
// with Jobs.
//
//	create: await cluster ─▶ driver ─▶ bootstrap data ─▶ credential ─▶ create Job ─▶ state ─▶ provider ID
//	delete: cancel create Job ─▶ CAPI Machine's hooks ─▶ remove Job ─▶ release
//
// It reads: <X>Machines, CAPI Machines and Clusters, NodeDrivers, bootstrap and credential Secrets,
// Jobs and their pods, the pod's documents in the state Secret, and the plan Secret of a host that
// is not clean. It writes: <X>Machine metadata, spec.providerID and status; per machine the state
// Secret (only the facts that the pod cannot write), the credential of last resort, service
// account, Role, RoleBinding, request Secret and Jobs. See controllers/doc.go. It deletes the CAPI
// Machine of a machine that was deleted alone (deletion.go).
//
// Each step reads its input again. The only memory is the claim on the state Secret (state.Claim).
// It records the number of attempts, the end of the last attempt if its pod did not write it, and
// that the server is gone if the state is deleted first. Package attempt runs the Jobs; next in
// attempt.go chooses the action for an attempt. Kinds come and go with their CRDs (controller.go).
package machine
