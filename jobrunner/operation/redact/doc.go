// Package redact takes secrets out of everything a Job says: log lines and messages. A secret is found
// as it is and in the forms in which programs print it: base64 at any offset, URL-escaped, quoted. Of a script or a document, its
// lines and the words that look like secrets are found too.
package redact
