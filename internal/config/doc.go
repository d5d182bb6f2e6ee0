// Package config owns the settings that a process reads once at its start: the PILOT_* variables of
// Istio that Lateen honours, with Istio's defaults, as one immutable value. It imports nothing of
// Lateen; nothing else reads the environment for settings.
package config
