// Package names is the DNS of a test cluster: it answers for Services and the pods of headless
// ones, as they are in the API server, and for names that a test adds. It answers nothing else, and
// asks nobody.
//
// It imports nothing of Lateen, and only tests import it.
package names
