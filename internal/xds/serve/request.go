package serve

import (
	"errors"
	"unicode/utf8"

	statusv1 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// request is a DiscoveryRequest or DeltaDiscoveryRequest on its way to the session. It is decoded by hand, because most
// requests are ACKs of 60 bytes, and because an Envoy which repeats its node in each one (up to 61 KB) should not
// cost us the decoding of it: the node stays bytes until it is wanted.
type request struct {
	session.Request
	protocol session.Protocol // to be set before decode
	node     []byte           // an encoded envoy.config.core.v3.Node, empty when the request has none
	size     int              // of the message in bytes
	skipNode bool             // to be set before decode, when the node is known
}

// Fields of envoy.service.discovery.v3.DiscoveryRequest and DeltaDiscoveryRequest.
const (
	sotwVersion      protowire.Number = 1
	sotwNode         protowire.Number = 2
	sotwNames        protowire.Number = 3
	sotwTypeURL      protowire.Number = 4
	sotwNonce        protowire.Number = 5
	sotwErrorDetail  protowire.Number = 6
	deltaNode        protowire.Number = 1
	deltaTypeURL     protowire.Number = 2
	deltaSubscribe   protowire.Number = 3
	deltaUnsubscribe protowire.Number = 4
	deltaInitial     protowire.Number = 5
	deltaNonce       protowire.Number = 6
	deltaErrorDetail protowire.Number = 7

	mapKey   protowire.Number = 1
	mapValue protowire.Number = 2
)

var errUTF8 = errors.New("a string is not valid UTF-8")

// decode reads a message. Nothing of it keeps b.
func (r *request) decode(b []byte) error {
	r.size = len(b)
	field := r.deltaField
	if r.protocol == session.StateOfTheWorld {
		field = r.sotwField
	}
	return eachField(b, field)
}

func (r *request) deltaField(n protowire.Number, v []byte) error {
	switch n {
	case deltaNode:
		return r.addNode(v)
	case deltaTypeURL:
		return text(&r.TypeURL, v)
	case deltaSubscribe:
		return addText(&r.Subscribe, v)
	case deltaUnsubscribe:
		return addText(&r.Unsubscribe, v)
	case deltaInitial:
		return r.addInitial(v)
	case deltaNonce:
		return text(&r.Nonce, v)
	case deltaErrorDetail:
		return r.setNack(v)
	}
	return nil
}

func (r *request) sotwField(n protowire.Number, v []byte) error {
	switch n {
	case sotwVersion:
		return text(&r.VersionInfo, v)
	case sotwNode:
		return r.addNode(v)
	case sotwNames:
		return addText(&r.Names, v)
	case sotwTypeURL:
		return text(&r.TypeURL, v)
	case sotwNonce:
		return text(&r.Nonce, v)
	case sotwErrorDetail:
		return r.setNack(v)
	}
	return nil
}

// addNode keeps the node's bytes: a message that comes in pieces is their concatenation.
func (r *request) addNode(v []byte) error {
	if !r.skipNode {
		r.node = append(r.node, v...)
	}
	return nil
}

func (r *request) addInitial(v []byte) error {
	var name, version string
	err := eachField(v, func(n protowire.Number, v []byte) error {
		switch n {
		case mapKey:
			return text(&name, v)
		case mapValue:
			return text(&version, v)
		}
		return nil
	})
	if r.InitialVersions == nil {
		r.InitialVersions = map[string]string{}
	}
	r.InitialVersions[name] = version
	return err
}

func (r *request) setNack(v []byte) error {
	var s statusv1.Status
	if err := proto.Unmarshal(v, &s); err != nil {
		return err
	}
	r.Nack = &session.Nack{Code: s.GetCode(), Message: s.GetMessage()}
	return nil
}

// eachField calls f for each length-delimited field of a message and passes over all others.
func eachField(b []byte, f func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		n, typ, size := protowire.ConsumeTag(b)
		if size < 0 {
			return protowire.ParseError(size)
		}
		b = b[size:]
		if typ != protowire.BytesType {
			if size = protowire.ConsumeFieldValue(n, typ, b); size < 0 {
				return protowire.ParseError(size)
			}
			b = b[size:]
			continue
		}
		v, size := protowire.ConsumeBytes(b)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if err := f(n, v); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

func text(into *string, v []byte) error {
	if !utf8.Valid(v) {
		return errUTF8
	}
	*into = string(v)
	return nil
}

func addText(into *[]string, v []byte) error {
	var s string
	err := text(&s, v)
	*into = append(*into, s)
	return err
}
