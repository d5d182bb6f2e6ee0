// Package settings owns what the agent is told: it reads arguments, environment and files, under
// the names that Istio's pilot-agent has, into one value that nobody changes. It refuses each value
// that it cannot use by the name of its variable, and notes what it leaves out.
//
// It may import api/compliance and xds/proxystats.
package settings
