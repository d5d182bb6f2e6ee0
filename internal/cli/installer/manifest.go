package installer

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/install/apply"
	"github.com/lateen-mesh/lateen/internal/install/render"
)

// The parts of what is installed. What stays when a control plane goes is apart, so that kubectl
// delete does not take it, and with Istio's kinds all their objects.
const (
	basePart         = "base"
	controlPlanePart = "control-plane"
	allParts         = "all"
)

func newManifest(notes *terminal.Writer) *cobra.Command {
	var f inputFlags
	var part string
	cmd := &cobra.Command{
		Use:   "manifest --image IMAGE",
		Short: "Print the manifests that install the control plane in a cluster",
		Long: `Prints what lateen install applies, as YAML for kubectl apply -f - or for a kustomization. Unlike
lateen install it looks at no cluster, so it does not see what is in the way.

The namespace, Istio's kinds and the root of the mesh are a part of their own (--part base), which
comes first. So lateen manifest | kubectl delete -f - removes the control plane and leaves them, with
all objects of Istio in the cluster. lateen verify, diff, upgrade and uninstall know what was applied
so.`,
		Example: `  lateen manifest --part base | kubectl apply -f -
  lateen manifest --image registry.example.com/lateen:v1 | kubectl apply -f -
  lateen manifest --part base --crds=false       # where Istio's kinds are there`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if part == basePart && f.in.Image == "" {
				f.in.Image = "none" // it names none
			}
			s, err := f.read(cmd, notes)
			if err != nil {
				return err
			}
			objects, err := withRecord(s, nil)
			if err != nil {
				return err
			}
			apply.Own(objects, s.Owner())
			return render.Write(cmd.OutOrStdout(), partOf(objects, part))
		},
	}
	f.bind(cmd)
	cmd.Flags().StringVar(&part, "part", controlPlanePart, "base (the namespace, Istio's kinds, the root of the "+
		"mesh), control-plane (the rest, with gateways), or all")
	command.ValidateFlag(cmd.Flags(), "part", func() error {
		if !slices.Contains([]string{basePart, controlPlanePart, allParts}, part) {
			return errors.New("want base, control-plane or all")
		}
		return nil
	})
	return cmd
}

func partOf(objects []*unstructured.Unstructured, part string) []*unstructured.Unstructured {
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return part == basePart && !apply.IsShared(o) || part == controlPlanePart && apply.IsShared(o)
	})
}
