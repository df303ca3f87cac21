package finder

import (
	"context"
	"errors"

	"github.com/drover-project/drover/clouds"
)

// Server is a server that carries our tags.
type Server struct {
	// ID is its name at the cloud, Name what people call it.
	ID, Name string
	// Record holds the fields that the driver's record must have to mean this server.
	Record map[string]any
	// MachineUID is the value of the tag by which it was found.
	MachineUID string
	// Unfinished tells that it can be of no use: its driver was cut off before it had all its parts, it is on its way out, or
	// it does not let the machine's SSH key in.
	Unfinished bool
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
	// Lost tells that a server was asked for and the answer is not known: clouds whose lists lag behind are asked for a while
	// before there is none, and who cannot prove whose a server is says so.
	Lost bool
	// Leaving tells that the machine is to have no server any more.
	Leaving bool
}

// ErrUncertain tells that there is a server which may be the machine's or somebody else's: a person has to look.
var ErrUncertain = errors.New("it cannot be told whose server it is")

// Finder finds and removes servers by tag. Errors are the cloud's own, as its SDK prints them, so that they can be classified
// like the driver's.
type Finder interface {
	// Find returns all servers with the machine's tags, none being no error. A list that is not whole is one.
	Find(ctx context.Context, machine Machine) ([]Server, error)
	// Remove removes a server that Find returned; a server already gone is no error.
	Remove(ctx context.Context, server Server) error
	// Sweep removes what a driver leaves at the cloud beside servers, such as SSH keys; nothing there is no error.
	Sweep(ctx context.Context, machine Machine) error
}

// For returns the finder of a driver, configured with the values of the driver's flags; nil when there is none. Some options
// take the tag away from a driver's servers, and then there is none either.
func For(driver string, values map[string]any) Finder {
	if !clouds.Of(driver).Finder.Works(values) {
		return nil
	}
	options := flags(values)
	if driver == openStackName {
		return newOpenStack(options)
	}
	if found := cloudFor(driver, options); found != nil {
		return byTag{cloud: found, driver: driver, pause: pause}
	}
	return nil
}

// flags are values of a driver's flags.
type flags map[string]any

func (f flags) text(flag string) string {
	value, _ := f[flag].(string)
	return value
}

func (f flags) set(flag string) bool {
	value, _ := f[flag].(bool)
	return value
}

func (f flags) number(flag string) int {
	value, _ := f[flag].(int)
	return value
}
