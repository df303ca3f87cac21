// Package command is the commands of drover: flags and arguments in, text and exit codes out. What they tell is decided in
// the pure packages listing and explain; reading the API is inventory's work, logging in is access's.
package command
