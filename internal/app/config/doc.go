// Package config owns the settings that a process reads once at its start, as one immutable value:
// the PILOT_* variables of Istio that Lateen supports, with Istio's defaults, and Lateen's own. It
// also has the table of what Lateen does about each variable of istiod. It imports api/compliance
// alone of Lateen. Nothing else reads settings from the environment.
package config
