// Package certificate creates the manager's certificates: authorities, and the certificates that
// they sign.
//
// It reads and writes only the Secret that Follow is given. servingcert uses it for the webhooks,
// authority for agents.
package certificate
