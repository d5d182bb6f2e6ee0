package serve

import (
	"encoding/binary"
	"errors"
	"unicode/utf8"

	statusv1 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
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
	stale    bool             // it answers a response that is not waited for

	lists lists
}

// incoming is what a stream reads a request into. The request itself is a lent one: a stream that waits has none.
type incoming struct {
	request  *request // from when it is decoded until done
	lent     *lent
	protocol session.Protocol
	skipNode bool // the node is known
}

// decode is request.decode.
func (in *incoming) decode(message mem.BufferSlice) error {
	in.request = in.lent.request()
	in.request.protocol, in.request.skipNode = in.protocol, in.skipNode
	return in.request.decode(message)
}

// done gives the request back, of which nobody keeps anything.
func (in *incoming) done() {
	in.lent.giveBackRequest(in.request)
	in.request = nil
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

// listsFrom is the size from which on the lists of a delta request are left where they are.
const listsFrom = 4 << 10

// decode reads a message. If it sets Lists, then these are in the message, which release frees; nothing else keeps any of it.
func (r *request) decode(message mem.BufferSlice) error {
	r.size = message.Len()
	take := r.deltaField
	switch {
	case r.protocol == session.StateOfTheWorld:
		take = r.sotwField
	case r.size >= listsFrom:
		take = r.largeField
		r.lists = lists{message: message}
	}
	s := scanner{left: message}
	for s.next() {
		if err := take(s.n, s.v); err != nil {
			return err
		}
	}
	if s.err == nil && r.lists.message != nil {
		message.Ref()
		r.Lists = &r.lists
	}
	return s.err
}

// release gives up the Lists.
func (r *request) release() {
	if r.Lists != nil {
		r.lists.message.Free()
		r.Lists, r.lists = nil, lists{}
	}
}

func (r *request) deltaField(n protowire.Number, v []byte) error {
	switch n {
	case deltaSubscribe:
		return addText(&r.Subscribe, v)
	case deltaInitial:
		return r.addInitial(v)
	}
	return r.commonField(n, v)
}

// largeField is deltaField for a request whose lists are left where they are.
func (r *request) largeField(n protowire.Number, v []byte) error {
	switch n {
	case deltaSubscribe:
		r.lists.names++
		return valid(v)
	case deltaInitial:
		r.lists.versions++
		return validEntry(v)
	}
	return r.commonField(n, v)
}

func (r *request) commonField(n protowire.Number, v []byte) error {
	switch n {
	case deltaNode:
		return r.addNode(v)
	case deltaTypeURL:
		return r.setType(v)
	case deltaUnsubscribe:
		return addText(&r.Unsubscribe, v)
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
		return r.setType(v)
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

// setType keeps the type's URL, without a copy of one that is served.
func (r *request) setType(v []byte) error {
	for t := range resource.NumTypes {
		if url := t.URL(); string(v) == url {
			r.TypeURL = url
			return nil
		}
	}
	return text(&r.TypeURL, v)
}

func (r *request) addInitial(v []byte) error {
	err := validEntry(v)
	if r.InitialVersions == nil {
		r.InitialVersions = map[string]string{}
	}
	name, version := entry(v)
	r.InitialVersions[string(name)] = string(version)
	return err
}

// validEntry tells whether one of a map of strings can be read.
func validEntry(b []byte) error {
	whole := ascii(b)
	if _, _, ok := shortEntry(b); ok && whole {
		return nil
	}
	for len(b) > 0 {
		n, v, size := field(b)
		switch {
		case size < 0:
			return protowire.ParseError(size)
		case !whole && v != nil && (n == mapKey || n == mapValue) && !utf8.Valid(v):
			return errUTF8
		}
		b = b[size:]
	}
	return nil
}

// ascii tells whether all bytes are. What is in an entry with a short name is, its tags and lengths too.
func ascii(b []byte) bool {
	var all uint64
	for ; len(b) >= 8; b = b[8:] {
		all |= binary.LittleEndian.Uint64(b)
	}
	for _, c := range b {
		all |= uint64(c)
	}
	return all&0x8080808080808080 == 0
}

func (r *request) setNack(v []byte) error {
	var s statusv1.Status
	if err := proto.Unmarshal(v, &s); err != nil {
		return err
	}
	r.Nack = &session.Nack{Code: s.GetCode(), Message: s.GetMessage()}
	return nil
}

// field is the number and value of the field with which a message begins, and its size with the tag, which is an error of protowire's
// if that is negative. The value is nil if it is not length-delimited.
func field(b []byte) (n protowire.Number, v []byte, size int) {
	if n, size = shortField(b); size > 0 {
		return n, b[2:size], size
	}
	n, typ, tag := protowire.ConsumeTag(b)
	if tag < 0 {
		return 0, nil, tag
	}
	if typ == protowire.BytesType {
		v, size = protowire.ConsumeBytes(b[tag:])
	} else {
		size = protowire.ConsumeFieldValue(n, typ, b[tag:])
	}
	if size < 0 {
		return 0, nil, size
	}
	return n, v, tag + size
}

// shortField is field for what is length-delimited and has a tag and a length of one byte each, as nearly all have. The size is 0 for
// others, and for what is not all there.
func shortField(b []byte) (n protowire.Number, size int) {
	if len(b) < 2 || (b[0]|b[1])&0x80 != 0 || b[0]&7 != byte(protowire.BytesType) || b[0] < 8 || len(b)-2 < int(b[1]) {
		return 0, 0
	}
	return protowire.Number(b[0] >> 3), 2 + int(b[1])
}

func text(into *string, v []byte) error {
	*into = string(v)
	return valid(v)
}

func valid(text []byte) error {
	if !ascii(text) && !utf8.Valid(text) {
		return errUTF8
	}
	return nil
}

func addText(into *[]string, v []byte) error {
	var s string
	err := text(&s, v)
	*into = append(*into, s)
	return err
}
