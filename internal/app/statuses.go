package app

import (
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/cluster/status"
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
