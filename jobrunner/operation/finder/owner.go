package finder

import (
	"context"
	"fmt"
	"slices"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
)

// Owner reads whose the server is that a driver's record names.
type Owner interface {
	// Get returns that server. Without tags it has none of ours (it was taken over, or made before there were tags); without
	// ID it is not there. Of several tags with one key, that with uid counts. Errors are the cloud's own.
	Get(ctx context.Context, record map[string]any, uid string) (Tagged, error)
}

// OwnerFor returns the Owner of a driver, configured with the values of the driver's flags; nil where servers have no tag of
// ours that could be read.
func OwnerFor(driver string, values map[string]any) Owner {
	for _, flag := range clouds.Of(driver).Finder.Needs {
		if _, known := values[flag]; !known {
			return nil // an external driver may go by the name of a built-in one
		}
	}
	options := flags(values)
	if driver == vSphereName && options.text("vmwarevsphere-vcenter") != "" {
		return newVSphere(options)
	}
	if found := cloudFor(driver, options); found != nil {
		return cloudOwner{found, driver}
	}
	return nil
}

type cloudOwner struct {
	cloud  cloud
	driver string
}

var _ Owner = cloudOwner{}

// Get implements Owner.
func (c cloudOwner) Get(ctx context.Context, record map[string]any, uid string) (Tagged, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, findTimeout, errTooSlow)
	defer cancel()
	server, err := c.cloud.get(ctx, record)
	if err != nil {
		return Tagged{}, fmt.Errorf("reading whose the server is: %w", err)
	}
	ours := clouds.Of(c.driver).Tags.Items(map[string]string{jobrunner.TagMachineUID: uid})
	if len(ours) > 0 && slices.Contains(server.words, ours[0]) {
		server.Tags[jobrunner.TagMachineUID] = clouds.Of(c.driver).Tags.Value(uid)
	}
	return server, nil
}

// recordText is a field of a record as text; numbers are as the driver writes them.
func recordText(record map[string]any, field string) string {
	if record[field] == nil {
		return ""
	}
	return fmt.Sprint(record[field])
}
