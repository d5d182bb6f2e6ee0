// Package install owns the names and labels of the objects of a control plane in its cluster. The
// charts make objects with these names (install/render tests it), and a running control plane finds
// its own objects by them.
//
// It may import api/kinds.
package install
