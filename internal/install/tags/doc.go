// Package tags makes and reads revision tags: second names of revisions, as Istio has them. A tag
// is two objects with the label istio.io/tag. Its webhook injects the Pods whose namespace has the
// name; its Service is in the root namespace. The label istio.io/rev of both says the revision.
//
// While a tag moves, its Service may name the revision that it leaves. That one then goes on
// reading the objects that name the tag, for the proxies that it still serves.
//
// The package asks no cluster. It may import api/kinds and install/render.
package tags
