// Command kube is a Kubernetes control plane for tests: etcd, kube-apiserver and
// kube-controller-manager in one program.
//
// Each of the three is a sub-command and runs as a process of its own, so that a test can stop the
// API server and keep etcd, or kill either without the other. It stands in a Go module of its own,
// because what it links is some 500 packages that the product must not carry; hack/build-tool.sh
// builds it, internal/testkit/kubeapi starts it.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

const usage = `usage:
  kube apiserver <flags of kube-apiserver>
  kube controller-manager <flags of kube-controller-manager>
  kube etcd --dir <data directory> --socket <path>     serve etcd on a Unix socket
  kube compact --socket <path>                         drop all of etcd's history before now
  kube put --socket <path> --key <key>                 store standard input under a key, past the
                                                       API server's validation
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	command := commandFor(os.Args[1])
	if command == nil {
		fmt.Fprintf(os.Stderr, "kube: there is no sub-command %q\n%s", os.Args[1], usage)
		os.Exit(2)
	}
	command.SetArgs(os.Args[2:])
	os.Exit(cli.Run(command))
}

// commandFor builds the one command that was asked for and no other: Kubernetes' commands register
// their flags and feature gates in tables of the process.
func commandFor(name string) *cobra.Command {
	switch name {
	case "apiserver":
		return apiserver.NewAPIServerCommand()
	case "controller-manager":
		return controllermanager.NewControllerManagerCommand()
	case "etcd":
		return etcdCommand()
	case "compact":
		return compactCommand()
	case "put":
		return putCommand()
	default:
		return nil
	}
}
