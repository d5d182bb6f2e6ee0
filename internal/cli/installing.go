package cli

import "github.com/spf13/cobra"

// installer is the program that renders charts. It is apart from this one because the templates of
// charts call methods by name: the linker would keep every method of every type in the control
// plane.
const installer companion = "lateen-installer"

// installerCommands returns the commands that the installer carries out.
func installerCommands() []*cobra.Command {
	return []*cobra.Command{
		installer.command("install", "Install a control plane in a cluster, and gateways",
			"  lateen install --image registry.example.com/lateen:v1"),
		installer.command("upgrade", "Change what lateen install has installed",
			"  lateen upgrade --image registry.example.com/lateen:v2"),
		installer.command("diff", "Show what lateen upgrade would change",
			"  lateen diff --image registry.example.com/lateen:v2"),
		installer.command("verify", "Check that what is installed is as lateen install left it, and works",
			"  lateen verify"),
		installer.command("uninstall", "Remove what lateen install has installed of a revision", "  lateen uninstall"),
		installer.command("precheck", "Say of each object of a cluster whether it would be in force with Lateen",
			"  lateen precheck"),
		installer.command("manifest", "Print the manifests that install the control plane in a cluster",
			"  lateen manifest --image registry.example.com/lateen:v1 | kubectl apply -f -"),
	}
}
