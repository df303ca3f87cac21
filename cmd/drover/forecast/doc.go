// Package forecast says what happens to a cluster and its machines when its objects have a given
// content: the document of `drover plan`, and its text. It is pure. The renderer of provisioning
// Clusters and the planner compute the effects.
package forecast
