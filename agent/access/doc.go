// Package access gives an agent access to its plan Secret. It registers at the endpoint with the
// agent's key (api/connect), stores the answer on disk, renews it, and implements the agent's
// PlanSecret.
//
// It reads the bootstrap token once and the connection file, and writes the key and that file with
// mode 0600. TLS is strict: it verifies the endpoint with the certificates of the registration, or
// with the system's certificates if the registration had none. It never tries one in place of the
// other. A change of the configuration takes effect again. The package never gives up: an agent
// that was away for weeks has an expired token, but it can register with its key.
package access
