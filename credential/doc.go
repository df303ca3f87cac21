// Package credential is the way of a cloud credential: from the name that an object gives it, through the Secret and the question who may use
// it, to what the driver takes as variables and files. Admission, the controllers and the command line ask here, so that all say the same.
//
//	name ──Parse──▶ Ref ──Source.Look──▶ Secret ──Env, Files──▶ what the driver is given
//
// It reads: Secrets. It writes: nothing; controllers/machine keeps what was given last.
package credential
