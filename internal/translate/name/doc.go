// Package name owns the translation of a name and its addresses to an entry of the name table, from
// which agents answer DNS. Its functions are pure: equal inputs have equal bytes in any process.
//
// It may import api/model and xds/nametable.
package name
