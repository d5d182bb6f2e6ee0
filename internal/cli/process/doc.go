// Package process owns what all commands share that run a control plane in their process: the
// flags of its addresses and its log, the settings of the environment, and how much memory it uses.
//
// It may import app, app/config, observe, observe/footprint, observe/memory and cli/command.
package process
