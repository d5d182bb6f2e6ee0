package serve

import (
	"strings"
	"sync"

	"google.golang.org/grpc/codes"

	"github.com/lateen-mesh/lateen/internal/observe"
)

const (
	// maxLogText is how much of what a client said a log line has, or an error that is sent back to
	// it. Envoy's reports of several refused resources are that long.
	maxLogText = 4 << 10
	// maxLabelText is how much of it a metric's label has. Names of Pods with their namespaces fit.
	maxLabelText = 320
	maxVersion   = 64
	// maxVersions is how many versions of proxies metrics tell apart. The rest are "other".
	maxVersions = 64
)

// untrusted returns what a client said as a log line may have it.
func untrusted(s string) string { return observe.Untrusted(s, maxLogText) }

func nodeLabel(n *Node) string { return observe.Untrusted(n.Name, maxLabelText) }

// codeLabel returns the name of a gRPC code. Clients report any number; those without a name are
// one label.
func codeLabel(c codes.Code) string {
	if s := c.String(); !strings.HasPrefix(s, "Code(") {
		return s
	}
	return codes.Unknown.String()
}

// versionLabels returns labels for versions that clients state. It tells the first maxVersions
// apart; a series that was made stays, so clients must not make as many as they like.
type versionLabels struct {
	mu    sync.Mutex
	known map[string]struct{}
}

func (v *versionLabels) label(version string) string {
	version = observe.Untrusted(version, maxVersion)
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.known[version]; ok {
		return version
	}
	if len(v.known) >= maxVersions {
		return "other"
	}
	if v.known == nil {
		v.known = map[string]struct{}{}
	}
	v.known[strings.Clone(version)] = struct{}{}
	return version
}
