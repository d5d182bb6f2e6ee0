package installer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/install/apply"
	"github.com/lateen-mesh/lateen/internal/install/tags"
)

func newTagSet(out, notes *terminal.Writer) *cobra.Command {
	f := tagFlags{out: out, notes: notes}
	var w tags.Wish
	cmd := &cobra.Command{
		Use:   "set NAME --revision REVISION",
		Short: "Make a tag stand for a revision, or move it to another one",
		Long: `Makes a tag stand for a revision. With --overwrite a tag moves there from another revision: from
then on new Pods get their proxies of the new one, and it reads the objects that name the tag. While
Pods of these namespaces still have proxies of the former revision, that one goes on reading the objects
too, so nothing is lost to them. Restart their workloads, and run the command again to end that.`,
		Example: `  lateen tag set prod --revision v1
  lateen tag set prod --revision v2 --overwrite
  lateen tag set default --revision v2           # for istio-injection=enabled`,
		Args: oneTag,
		RunE: func(cmd *cobra.Command, args []string) error {
			w.Name, w.Root = args[0], f.namespace
			return f.with(cmd, func(ctx context.Context, cluster *apply.Cluster, state *tags.State) error {
				return f.set(ctx, cluster, state, w)
			})
		},
	}
	f.bindWish(cmd, &w)
	cmd.Flags().BoolVar(&w.Overwrite, "overwrite", false, "move a tag that is another revision's")
	cmd.Flags().BoolP("skip-confirmation", "y", false, "as in istioctl; nothing is asked")
	return cmd
}

// set makes or moves a tag: first its webhook, so that new Pods get proxies of the revision, then
// its Service, by which the revision that it leaves may go on reading.
func (f *tagFlags) set(ctx context.Context, cluster *apply.Cluster, state *tags.State, w tags.Wish) error {
	if err := state.Check(w); err != nil {
		return fmt.Errorf("nothing is changed: %w", err)
	}
	made, err := state.Make(w)
	if err != nil {
		return err
	}
	left, err := leftBehind(ctx, cluster, state, w)
	if err != nil {
		return err
	}
	if left.pods > 0 {
		former := w
		former.Revision, former.Root = left.revision, cmp.Or(state.RootOf(left.revision), w.Root)
		of, err := state.Make(former)
		if err != nil {
			left = leaving{} // it is gone, so nobody reads for its proxies
		} else {
			made.Service = of.Service
		}
	}
	objects := []*unstructured.Unstructured{made.Webhook, made.Service}
	for _, o := range objects {
		if err := cluster.Replace(ctx, o); err != nil {
			return fmt.Errorf("%w; the command may be run again", err)
		}
	}
	if err := removeOthers(ctx, cluster, state, objects); err != nil {
		return err
	}
	f.out.Line("the tag %s stands for revision %s; kubectl label namespace NAME istio.io/rev=%[1]s gives new Pods its "+
		"proxies", w.Name, w.Revision)
	if left.pods > 0 {
		f.out.Line("revision %s goes on reading what names the tag, for the Pods with its proxies (%d): restart "+
			"them, and run this command again", left.revision, left.pods)
	}
	return nil
}

// removeOthers removes what else makes the tag: webhooks of another name, as those of istioctl
// --webhook-name, because Pods would be asked about twice, and Services of other root namespaces.
func removeOthers(ctx context.Context, cluster *apply.Cluster, state *tags.State, made []*unstructured.Unstructured,
) error {
	var kept []string
	for _, o := range made {
		kept = append(kept, apply.Name(o))
	}
	for _, o := range state.ObjectsOf(made[0].GetLabels()[kinds.TagLabel]) {
		if slices.Contains(kept, apply.Name(o)) {
			continue
		}
		if err := cluster.Remove(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// leaving is the revision that a tag leaves, and how many Pods have its proxies.
type leaving struct {
	revision string
	pods     int
}

// leftBehind counts the Pods that name a tag and have proxies of a revision that the tag leaves.
func leftBehind(ctx context.Context, cluster *apply.Cluster, state *tags.State, w tags.Wish) (leaving, error) {
	tag, exists := state.Get(w.Name)
	if !exists {
		return leaving{}, nil
	}
	formers := append([]string{tag.Revision}, tag.AlsoReadBy...)
	found := map[string]map[string]bool{}
	count := func(pods []metav1.PartialObjectMetadata) {
		for i := range pods {
			revision := proxyRevision(&pods[i])
			if found[revision] == nil {
				found[revision] = map[string]bool{}
			}
			found[revision][pods[i].Namespace+"/"+pods[i].Name] = true
		}
	}
	for _, namespace := range tag.Namespaces {
		pods, err := cluster.PodMetadata(ctx, namespace, "")
		if err != nil {
			return leaving{}, fmt.Errorf("looking for proxies of other revisions: %w", err)
		}
		count(pods)
	}
	pods, err := cluster.PodMetadata(ctx, "", kinds.RevisionLabel+"="+w.Name)
	if err != nil {
		return leaving{}, fmt.Errorf("looking for proxies of other revisions: %w", err)
	}
	count(pods)
	var left []leaving
	for _, former := range formers {
		if n := len(found[former]); former != w.Revision && n > 0 {
			left = append(left, leaving{former, n})
		}
	}
	switch len(left) {
	case 0:
		return leaving{}, nil
	case 1:
		return left[0], nil
	}
	return leaving{}, fmt.Errorf("nothing is changed: Pods have proxies of two former revisions, %s (%d) and %s (%d), "+
		"and one alone would go on reading what names the tag; want a restart of those of %[3]s first",
		left[0].revision, left[0].pods, left[1].revision, left[1].pods)
}

// proxyRevision returns the revision that has injected a Pod; empty if none has.
func proxyRevision(pod *metav1.PartialObjectMetadata) string {
	var status struct {
		Revision string `json:"revision"`
	}
	if json.Unmarshal([]byte(pod.Annotations["sidecar.istio.io/status"]), &status) != nil {
		return ""
	}
	return status.Revision
}
