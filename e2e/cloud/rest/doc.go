// Package rest serves an account over HTTP as the DigitalOcean API does.
//
// It reads requests of any client of that API and answers with godo's own
// types. For each request it checks the token, applies the programmed faults
// and the rate limit, and calls package account. Package cloud listens for it.
package rest
