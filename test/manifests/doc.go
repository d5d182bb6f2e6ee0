// Package manifests holds tests of the way from manifests as users write them to the resources that
// proxies get, through the stages as they are: files or documents in, encoded sets out, and no
// Envoy. What must hold for any input stands here:
//
//   - whatever the order of arrival, the grouping into files, and what was tried in between, and
//     whether the process was started anew: the same manifests give the same resources and the same
//     problems;
//   - a bad object changes nobody else's resources;
//   - whatever can be read can be translated, and every resource is one that Envoy's own rules
//     allow (FuzzManifests).
package manifests
