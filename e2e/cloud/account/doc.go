// Package account is the model behind the local cloud's API: tokens, keys,
// droplets, actions and tags of one account, without any HTTP.
//
// It reads the ledger at start to rebuild what existed, writes every change
// to it, and makes droplets real through a server.Backend. Package rest serves
// it; its errors are the API's own error bodies.
package account
