// Command clients is kubectl and Helm, unchanged, for tests of the commands that guides tell users
// to type: clients kubectl …, clients helm …. It stands in a Go module of its own because of what
// it links; hack/build-tool.sh builds it.
package main

import (
	"fmt"
	"log/slog"
	"os"

	helm "helm.sh/helm/v4/pkg/cmd"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	os.Args = append([]string{name}, args...) // kubectl reads them there
	switch name {
	case "kubectl":
		return cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand())
	case "helm":
		command, err := helm.NewRootCmd(os.Stdout, args, func(bool) {
			slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
		})
		if err != nil {
			return err
		}
		return command.Execute()
	}
	return fmt.Errorf("%q: want kubectl or helm", name)
}
