package app

import (
	"context"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/cluster/status"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/source"
)

// updateIngresses passes on which Ingresses a generation adds to the mesh or removes from it. A
// Gateway with the kind Ingress stands for each of them.
func (c *Cluster) updateIngresses(next *generation) {
	var changes []status.IngressChange
	for _, g := range next.delta.Gateways {
		if at := g.Either(); at.Kind == kinds.Ingress {
			changes = append(changes, status.IngressChange{Key: at.Key(), UID: at.UID, Owned: g.New != nil})
		}
	}
	c.ingresses.Compiled(changes, next.snapshot.Mesh.Ingress.Service)
}

// updateAttachments passes on what objects of the Gateway API have come to in a generation.
func (c *Cluster) updateAttachments(next *generation) {
	var changes []status.AttachmentChange
	for _, p := range next.delta.GatewayAPIStatuses {
		changes = append(changes, status.AttachmentChange{Key: p.Either().Key(), Status: p.New})
	}
	c.attachments.Compiled(changes) // first, as the controller of Gateways reports to them
	for _, change := range changes {
		if change.Key.Kind != kinds.KubernetesGateway {
			continue
		}
		var wanted *model.GatewayDeployment
		if change.Status != nil {
			wanted = change.Status.Deployment
		}
		c.deployments.Compiled(change.Key, wanted)
	}
}

// applied passes on the changes of a compiled batch to those who write statuses.
func (c *Cluster) applied(changes []source.Change) {
	c.tracker.Applied(changes)
	c.attachments.Applied(changes)
}

// What EnvoyFilters match changes with each proxy that comes or goes. So it is noted at times, of a
// few objects at a time: a note is a write. That one matches nothing is a problem, and told at
// once.
const (
	matchesPace = time.Minute
	notesAtOnce = 50
	// patchesNoted is how many patches of one object are noted.
	patchesNoted = 20
)

// noteMatches says in the status of EnvoyFilters what they match, until ctx ends.
func (c *Cluster) noteMatches(ctx context.Context, p *Pipeline) {
	every := time.NewTicker(matchesPace)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		if c.tracker.Noted(notesOf(p.compiler.PatchMatches()), notesAtOnce) > 0 {
			p.loop.Conflicted() // so that they are passed on without a batch
		}
	}
}

// notesOf says of each object what its patches match.
func notesOf(matches []compile.PatchMatches) map[source.Key]string {
	lines := map[source.Key][]string{}
	for _, m := range matches {
		switch at := lines[m.Owner]; {
		case len(at) < patchesNoted:
			lines[m.Owner] = append(at, m.String())
		case len(at) == patchesNoted:
			lines[m.Owner] = append(at, "and so on: lateen_patch_resources has all")
		}
	}
	notes := map[source.Key]string{}
	for k, of := range lines {
		notes[k] = strings.Join(of, "\n")
	}
	return notes
}
