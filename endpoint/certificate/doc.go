// Package certificate makes the certificates that the manager shows: authorities, and what they sign.
//
// It reads and writes nothing but the Secret that Follow is told of. Who asks: servingcert for the webhooks, authority for agents.
package certificate
