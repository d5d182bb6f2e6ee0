package listener

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// connections sets what the proxy's settings say of connections and requests.
func (c builder) connections(m *hcmv3.HttpConnectionManager) {
	s := c.Connections
	if s == nil {
		return
	}
	setLimit(&m.StreamIdleTimeout, s.StreamIdleTimeout)
	setLimit(&m.RequestTimeout, s.RequestTimeout)
	setLimit(&m.RequestHeadersTimeout, s.RequestHeadersTimeout)
	setLimit(&m.DrainTimeout, s.DrainTimeout)
	common := m.CommonHttpProtocolOptions
	if common == nil {
		common = &corev3.HttpProtocolOptions{}
	}
	setLimit(&common.IdleTimeout, s.IdleTimeout)
	setLimit(&common.MaxConnectionDuration, s.MaxConnectionDuration)
	setLimit(&common.MaxStreamDuration, s.MaxStreamDuration)
	switch s.Underscores {
	case model.UnderscoresRefuse:
		common.HeadersWithUnderscoresAction = corev3.HttpProtocolOptions_REJECT_REQUEST
	case model.UnderscoresDrop:
		common.HeadersWithUnderscoresAction = corev3.HttpProtocolOptions_DROP_HEADER
	case model.UnderscoresUnset, model.UnderscoresPass:
	}
	m.CommonHttpProtocolOptions = common
	if s.MaxStreams != 0 || s.StreamWindow != 0 || s.ConnectionWindow != 0 {
		m.Http2ProtocolOptions = &corev3.Http2ProtocolOptions{
			MaxConcurrentStreams:        pb.OptionalUint32(s.MaxStreams),
			InitialStreamWindowSize:     pb.OptionalUint32(s.StreamWindow),
			InitialConnectionWindowSize: pb.OptionalUint32(s.ConnectionWindow),
		}
	}
	if s.MergeSlashes != nil {
		m.MergeSlashes = *s.MergeSlashes
	}
	if s.EscapedSlashes != model.SlashesUnset {
		m.PathWithEscapedSlashesAction = escapedSlashes(s.EscapedSlashes)
	}
}

func escapedSlashes(s model.EscapedSlashes) hcmv3.HttpConnectionManager_PathWithEscapedSlashesAction {
	switch s {
	case model.SlashesRefuse:
		return hcmv3.HttpConnectionManager_REJECT_REQUEST
	case model.SlashesRedirect:
		return hcmv3.HttpConnectionManager_UNESCAPE_AND_REDIRECT
	case model.SlashesDecode:
		return hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD
	case model.SlashesUnset, model.SlashesStay:
	}
	return hcmv3.HttpConnectionManager_KEEP_UNCHANGED
}

// setLimit sets a time, unless it is 0. Envoy takes 0 for none.
func setLimit(field **durationpb.Duration, d time.Duration) {
	if d != 0 {
		*field = pb.Duration(max(d, 0))
	}
}
