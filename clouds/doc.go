// Package clouds is what Drover knows of single drivers and their clouds beyond what they say themselves, as data: one file per
// driver, one value per driver. It is pure and lies below everything but api.
//
//	Of(driver) ──▶ Cloud: what names its servers, providerID, tags, SSH key, user data, credential, error texts, finder, leftovers
//
// The manager, the CLI and the pod read it; nobody writes it. A driver without a file works too: docs/drivers.md says what it
// lacks. To add a driver, add a file whose variable goes through add, run the tests with -update, and add its row to the page.
package clouds
