package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// installer is the program that renders charts. It is apart from this one because the templates of
// charts call methods by name: the linker would keep every method of every type in the control
// plane.
const installer = "lateen-installer"

// installerCommands returns the commands that the installer carries out.
func installerCommands() []*cobra.Command {
	return []*cobra.Command{
		passedOn("install", "Install a control plane in a cluster, and gateways",
			"  lateen install --image registry.example.com/lateen:v1"),
		passedOn("upgrade", "Change what lateen install has installed",
			"  lateen upgrade --image registry.example.com/lateen:v2"),
		passedOn("diff", "Show what lateen upgrade would change",
			"  lateen diff --image registry.example.com/lateen:v2"),
		passedOn("verify", "Check that what is installed is as lateen install left it, and works", "  lateen verify"),
		passedOn("uninstall", "Remove what lateen install has installed of a revision", "  lateen uninstall"),
		passedOn("precheck", "Say of each object of a cluster whether it would be in force with Lateen",
			"  lateen precheck"),
		passedOn("manifest", "Print the manifests that install the control plane in a cluster",
			"  lateen manifest --image registry.example.com/lateen:v1 | kubectl apply -f -"),
	}
}

// passedOn returns a command whose arguments, and help, are the installer's business.
func passedOn(name, short, example string) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short, Example: example, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error { return execInstaller(append([]string{name}, args...)) },
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		if err := execInstaller([]string{name, "--help"}); err != nil {
			cmd.PrintErrln("lateen:", err)
		}
	})
	return cmd
}

// execInstaller replaces this process by the installer, which stands beside it or in $PATH.
func execInstaller(args []string) error {
	path, err := findInstaller()
	if err != nil {
		return err
	}
	return syscall.Exec(path, append([]string{installer}, args...), os.Environ()) //nolint:gosec // our own
}

func findInstaller() (string, error) {
	self, err := os.Executable()
	if err == nil {
		beside := filepath.Join(filepath.Dir(self), installer)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath(installer)
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("the program %s is neither beside %s nor in $PATH; want both: make build makes them",
			installer, self)
	}
	return path, err
}
