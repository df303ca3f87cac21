package finder

import (
	"context"
)

// Server is a server that carries our tags.
type Server struct {
	// ID is its name at the cloud.
	ID string
	// Record holds the fields that the driver's record must have to mean this server.
	Record map[string]any
}

// Machine says whose servers and leftovers are looked for.
type Machine struct {
	// InstanceName is the server's name at the cloud.
	InstanceName string
	// Tags as they were asked for; encoded by the finder as the driver's flag encodes them.
	Tags map[string]string
	// PublicKey of the server, an authorized_keys line; nil when it is lost.
	PublicKey []byte
	// Record is the driver's, if any.
	Record map[string]any
}

// Finder finds and removes servers by tag. Errors are the cloud's own, as its SDK prints them, so that they can be classified
// like the driver's.
type Finder interface {
	// Find returns all servers with the machine's tags, none being no error.
	Find(ctx context.Context, machine Machine) ([]Server, error)
	// Remove removes a server that Find returned; a server already gone is no error.
	Remove(ctx context.Context, server Server) error
	// Sweep removes what a driver leaves at the cloud beside servers, such as SSH keys; nothing there is no error.
	Sweep(ctx context.Context, machine Machine) error
}

// For returns the finder of a driver, configured with the values of the driver's flags; nil when there is none.
func For(driver string, values map[string]any) Finder {
	if driver != "digitalocean" {
		return nil
	}
	token, _ := values["digitalocean-access-token"].(string)
	return newDigitalOcean(token)
}
