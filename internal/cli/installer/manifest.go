package installer

import (
	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/install/render"
)

func newManifest(notes *terminal.Writer) *cobra.Command {
	var f inputFlags
	cmd := &cobra.Command{
		Use:   "manifest --image IMAGE",
		Short: "Print the manifests that install the control plane in a cluster",
		Long: `Prints what lateen install applies, as YAML for kubectl apply -f - or for a kustomization. Unlike
lateen install it looks at no cluster, so it does not see what is in the way.`,
		Example: `  lateen manifest --image registry.example.com/lateen:v1 | kubectl apply -f -
  lateen manifest -f operator.yaml --image registry.example.com/lateen:v1 --crds=false`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.read(cmd, notes)
			if err != nil {
				return err
			}
			objects, err := s.Objects(nil)
			if err != nil {
				return err
			}
			return render.Write(cmd.OutOrStdout(), objects)
		},
	}
	f.bind(cmd)
	return cmd
}
