// Package dir is the source that reads a directory of ordinary Kubernetes and Istio manifests and watches it.
//
//	disk ──scan──► pending ──settled──► manifest.ReadFile ──► files ──► ledger ──► source.Event
//	               (is somebody                                 │  ▲   (who holds each object,
//	               still writing?)                              ▼  │   what was delivered)
//	                                                         records: the last valid reading, across restarts
//
// It owns three things: when a file counts as written to its end (tree); which of several definitions of one object
// is in force (ledger); and the last valid reading of each object (records). How a manifest is read is package manifest's.
//
// # What is in force
//
// The state of the mesh is a function of the files and of their last valid readings, which are recorded, so that
// a restart changes nothing:
//
//   - A document that is read without an error is in force as it stands, and is the object's last valid reading.
//   - A document that is refused (unknown field, wrong type, …) but whose kind, namespace and name can be read
//     keeps that object's last valid reading in this file in force. The other documents of the file go on.
//   - A document that is refused and that cannot be named (misspelt kind, bad name) might be any object that the
//     file defined before: those that the file no longer names stay in force until the document is mended.
//   - A file that cannot be read as a whole (a syntax error, too large, no permission) keeps its last valid
//     reading in force, all of it and nothing else.
//   - A document that was removed from a readable file, and a file that was removed, delete their objects.
//   - A directory that cannot be read keeps all of its objects in force until it is back.
//   - Of several documents that define one object, the first by file path, then by position, is in force.
//
// The package may import api/kinds, source and source/manifest, and nothing else of Lateen.
package dir
