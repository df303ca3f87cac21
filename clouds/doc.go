// Package clouds is Drover's data about single drivers and their clouds that the drivers do not
// report: one file and one value per driver. It is pure and imports only api.
//
//	Of(driver) ──▶ Cloud: the naming of servers, providerID, tags, SSH key, user data, credential, error texts, finder, leftovers
//
// The manager, the CLI and the pod read it. A driver without a file works too: docs/drivers.md
// lists its limits. To add a driver, add a file whose variable goes through add, run the tests with
// -update, and add its row to the page.
package clouds
