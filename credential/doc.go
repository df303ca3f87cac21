// Package credential resolves a cloud credential: from its name in an object, through the Secret
// and the check of access to it, to the driver's variables and files. Admission, the controllers
// and the command line all use it, so that their answers agree.
//
//	name ──Parse──▶ Ref ──Source.Look──▶ Secret ──Env, Files──▶ the driver's input
//
// It reads Secrets and writes nothing; controllers/machine keeps the last credential.
package credential
