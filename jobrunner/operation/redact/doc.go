// Package redact removes secrets from all output of a Job: log lines and messages. It finds a
// secret in its plain form and in the forms in which programs print it: base64 at any offset,
// URL-escaped, quoted. For a script or a document it also finds the lines, and words that look like
// secrets.
package redact
