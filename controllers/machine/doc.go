// Package machine is the loop that turns <X>Machines, the kinds made from drivers, into servers, by way of Jobs.
//
//	create: await cluster ─▶ driver ─▶ bootstrap data ─▶ credential ─▶ create Job ─▶ state ─▶ provider ID
//	delete: cancel create Job ─▶ CAPI Machine's hooks ─▶ remove Job ─▶ release
//
// It reads: <X>Machines, CAPI Machines and Clusters, NodeDrivers, bootstrap and credential Secrets, Jobs and their pods,
// what the pod left in the state Secret, and of a host that is not clean the plan Secret. It writes: <X>Machine metadata,
// spec.providerID and status; per machine the state Secret (of its data what the pod cannot tell), the credential of last
// resort, service account, Role, RoleBinding, request Secret and Jobs. See controllers/doc.go.
// It deletes the CAPI Machine of a machine that was deleted alone (deletion.go).
//
// Whatever a step needs to know it looks up again; the only memory is the claim on the state Secret (state.Claim), which numbers the
// attempts, how the last ended if its pod did not say so, and, where the state goes first, that the server is gone. Package attempt runs the
// Jobs; next in attempt.go decides what is done about one. Kinds come and go with their CRDs (controller.go).
package machine
