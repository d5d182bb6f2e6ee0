package model

// Object is one of the mesh's own objects: a pointer to a struct of this package with a Meta, or a
// *MeshConfig.
type Object interface{ object() }

func (*Meta) object()       {}
func (*MeshConfig) object() {}
