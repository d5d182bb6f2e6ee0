// Package selected applies the discovery selectors of the mesh configuration
// (MeshConfig.discovery_selectors): Selection says which namespaces they select, and Source leaves
// the others out of what another source delivers.
//
// It may import api/kinds and source.
package selected
