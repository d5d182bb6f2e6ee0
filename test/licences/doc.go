// Package licences holds that all modules which Lateen is built and tested with have a licence that
// Lateen may be distributed with. It reads the files in the module cache, so it needs no network.
package licences
