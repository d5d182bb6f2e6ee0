// Package dir is the source that reads a directory of Kubernetes and Istio manifests and watches
// it.
//
//	disk ──scan──► pending ──settled──► manifest.ReadFile ──► files ──► definitions ──► source.Event
//	               (may still be                                 │  ▲     (who defines each object,
//	               being written)                                ▼  │      what was delivered)
//	                                                         records: the last valid reading,
//	                                                                  across restarts
//
// It decides three things: when a file is complete (tree), which of several definitions of one
// object is in force (definitions), and what the last valid reading of each object was (records).
// Package manifest knows how a manifest is read.
//
// # What is in force
//
// The state of the mesh is a function of the files and of their last valid readings. Those are
// recorded, so a restart changes nothing:
//
//   - A document without an error is in force as written. It becomes the object's last valid
//     reading.
//   - A document with an error (unknown field, wrong type, …) whose kind, namespace and name can be
//     read keeps that object's last valid reading of this file in force. The other documents of the
//     file are not affected. One of a kind that protects (kinds.Descriptor.Protects) is replaced by
//     a policy that refuses calls: an earlier reading may allow what the edit was to forbid.
//   - A document with an error that cannot be identified (misspelt kind, bad name) might be any
//     object that the file defined before. Those that the file no longer names stay in force until
//     the document is mended.
//   - A file that cannot be read as a whole (a syntax error, too large, no permission) keeps its
//     last valid reading in force.
//   - A file that lacks objects and is empty, or ends as if it were cut off (cutOff), keeps the
//     last valid reading of what is missing in force.
//   - A document that was removed from a complete file, and a file that was removed, delete their
//     objects.
//   - A directory that cannot be read keeps all of its objects in force until it is back.
//   - If several documents define one object, the first by file path, then by position, is in
//     force.
//
// The package may import api/kinds, source and source/manifest, and nothing else of Lateen.
package dir
