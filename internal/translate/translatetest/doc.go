// Package translatetest owns what the tests of translations share: golden cases as one file each,
// the guard on input structs, and the judgement of a real Envoy. Only tests import it.
package translatetest
