package clouds

import "strings"

// AgentServer returns the ID of the server from which an agent has registered. told is the agent's
// report: cloud-init's name of the cloud and the server's ID there, joined by a slash. The result
// is empty if the report names another driver's cloud, or the cloud is unknown.
func (c Cloud) AgentServer(told string) string {
	name, id, _ := strings.Cut(told, "/")
	if c.CloudInit == "" || name != c.CloudInit {
		return ""
	}
	return id
}

// RunsElsewhere reports whether an agent has certainly registered from another server than the one
// of the provider ID.
func RunsElsewhere(providerID, told string) bool {
	for _, c := range known {
		id, recorded := c.AgentServer(told), c.ServerID(Unfill(c.ProviderID, providerID))
		if id != "" && recorded != "" {
			return !strings.EqualFold(id, recorded)
		}
	}
	return false
}
