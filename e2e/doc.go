// Package e2e holds the stories: each user-visible promise, told as a script in testdata/*.txtar and played on real
// containers and real servers (package testbed brings them up).
package e2e
