package workload

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"time"
)

// patience is how long an API server may take to say hello.
const patience = 2 * time.Second

// Answers reports whether a server whose certificate the authority has signed (PEM) answers at an address. Whoever else listens there, in another network that has the
// same addresses for instance, is none; he is sent nothing but a greeting. Nobody is asked past a proxy that the manager has for the address: a
// connection would not go that way.
func Answers(ctx context.Context, address string, authority []byte) bool {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) || proxied(&url.URL{Scheme: "https", Host: address}) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	connection, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = connection.Close()
	return true
}
