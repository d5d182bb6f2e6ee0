package name

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/xds/nametable"
)

// Input is a name and what it stands for.
type Input struct {
	Host model.Host
	// Addresses are IP addresses, sorted, each once.
	Addresses *model.List[string]
	// ShortName and Namespace are those of a name of Kubernetes, which callers shorten; both are
	// empty for the host of a ServiceEntry.
	ShortName, Namespace string
}

// Table returns the encoded name table with the one name.
func Table(in Input) []byte {
	n := nametable.Name{
		Host:      string(in.Host),
		IPs:       slices.Collect(in.Addresses.All()),
		Registry:  nametable.External,
		ShortName: in.ShortName,
		Namespace: in.Namespace,
	}
	if in.Namespace != "" {
		n.Registry = nametable.Kubernetes
	}
	return nametable.Append(nil, &n)
}
