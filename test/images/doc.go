// Package images tests that hack/images makes container images that are equal wherever they are
// made, and that their programs run as a Pod runs them: as user 1337 in a read-only root. It needs
// Linux and root, and only holds tests.
package images
