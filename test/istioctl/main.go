// Command istioctl is Istio's own, unchanged, for tests of what it needs of a control plane. It
// stands in a Go module of its own because of what it links; hack/build-tool.sh builds it.
//
// It has one sub-command that istioctl has not: "kubelet", which forwards ports of Pods for an API
// server whose Pods are processes of this machine.
package main

import (
	"fmt"
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // as istioctl's own main

	"istio.io/istio/istioctl/cmd"
	"istio.io/istio/pkg/log"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "kubelet" {
		if err := runKubelet(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "kubelet:", err)
			os.Exit(1)
		}
		return
	}
	if err := cmd.ConfigAndEnvProcessing(); err != nil {
		fmt.Fprintf(os.Stderr, "istioctl: %v\n", err)
		os.Exit(cmd.GetExitCode(err))
	}
	root := cmd.GetRootCmd(os.Args[1:])
	log.EnableKlogWithCobra()
	if err := root.Execute(); err != nil {
		os.Exit(cmd.GetExitCode(err))
	}
}
