// Package e2e holds the stories: each user-visible promise as a script in testdata/*.txtar, run on
// real containers and real servers (package testbed starts them).
package e2e
