package cli

import (
	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/command"
)

// installer is the program that renders charts. It is apart from this one, because building it
// takes Helm's engine.
const installer command.Companion = "lateen-installer"

// installerCommands returns the commands that the installer carries out.
func installerCommands() []*cobra.Command {
	return []*cobra.Command{
		installer.Command("install", "Install a control plane in a cluster, and gateways",
			"  lateen install --image registry.example.com/lateen:v1"),
		installer.Command("upgrade", "Change what lateen install has installed",
			"  lateen upgrade --image registry.example.com/lateen:v2"),
		installer.Command("diff", "Show what lateen upgrade would change",
			"  lateen diff --image registry.example.com/lateen:v2"),
		installer.Command("verify", "Check that what is installed is as lateen install left it, and works",
			"  lateen verify"),
		installer.Command("uninstall", "Remove what lateen install has installed of a revision", "  lateen uninstall"),
		installer.Command("tag", "Give a revision a second name, by which namespaces and objects may name it",
			"  lateen tag set prod --revision v2"),
		installer.Command("workload", "Configure machines outside of Kubernetes, which join the mesh",
			"  lateen workload configure vms --namespace shop --output-dir vm"),
		installer.Command("precheck", "Say of each object of a cluster whether it would be in force with Lateen",
			"  lateen precheck"),
		installer.Command("manifest", "Print the manifests that install the control plane in a cluster",
			"  lateen manifest --image registry.example.com/lateen:v1 | kubectl apply -f -"),
	}
}
