// Package command implements the commands of drover: flags and arguments in, text and exit codes
// out. The pure packages listing and explain decide the content of the output; package inventory
// reads the API, package access logs in.
package command
