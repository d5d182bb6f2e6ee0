package model

// Object is one of the mesh's own objects: *Namespace, *Node, *Service, *EndpointSlice, *Workload, *Gateway, *VirtualService,
// *DestinationRule, *Sidecar, *Guard, *Credential or *MeshConfig.
type Object interface{ object() }

func (*Meta) object()       {}
func (*MeshConfig) object() {}
