// Package build says what the programs were built as.
//
// It imports nothing of Lateen.
package build

// Version is that of all programs. The linker sets it (Makefile).
var Version = "dev"

// IstioAPI is the API level reported to proxies and tools.
const IstioAPI = "1.31.0"
