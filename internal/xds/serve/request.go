package serve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	statusv1 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// request is a DiscoveryRequest or DeltaDiscoveryRequest on its way to the session. It is decoded
// by hand, because most requests are ACKs of 60 bytes. Also, an Envoy that repeats its node in each
// request (up to 61 KB) must not cost the decoding of it: the node stays bytes until it is wanted.
type request struct {
	session.Request
	protocol session.Protocol // set before decode
	node     []byte           // an encoded envoy.config.core.v3.Node, empty if the request has none
	size     int              // of the message in bytes
	skipNode bool             // set before decode, if the node is known
	isStale  bool             // it answers a response that is not outstanding

	lists lists
}

// incoming is what a stream reads a request into. The request comes from pools: a stream that waits
// has none.
type incoming struct {
	request  *request // from when it is decoded until done
	pools    *pools
	protocol session.Protocol
	skipNode bool // the node is known
}

// decode decodes a message into a request from pools.
func (in *incoming) decode(message mem.BufferSlice) error {
	in.request = in.pools.request()
	in.request.protocol, in.request.skipNode = in.protocol, in.skipNode
	return in.request.decode(message)
}

// done gives the request back, of which nobody keeps anything.
func (in *incoming) done() {
	in.pools.returnRequest(in.request)
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

// listsFrom is the size from which on the lists of a delta request are read where they are.
const listsFrom = 4 << 10

// decode reads a message. If it sets Lists, these are in the message, which release frees. Nothing
// else of the message is kept.
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
	s := scanner{rest: message}
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

// release frees the Lists.
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

// largeField is deltaField for a request whose lists are read where they are.
func (r *request) largeField(n protowire.Number, v []byte) error {
	switch n {
	case deltaSubscribe:
		r.lists.names++
		return validName(v)
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

// addNode keeps the node's bytes. A message that comes in parts is their concatenation.
func (r *request) addNode(v []byte) error {
	if !r.skipNode {
		r.node = append(r.node, v...)
	}
	return nil
}

// setType sets the type's URL, without a copy if the type is served.
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

// validEntry returns an error if an entry of a map of strings cannot be read.
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
		case n == mapKey && len(v) > maxName:
			return validName(v)
		case !whole && v != nil && (n == mapKey || n == mapValue) && !utf8.Valid(v):
			return errUTF8
		}
		b = b[size:]
	}
	return nil
}

// ascii reports whether all bytes are ASCII. In an entry with a short name, tags and lengths are
// too.
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

// maxNack is how many bytes of a client's reason are read. The session looks for the names of
// resources in it, and keeps it until the resources are accepted.
const maxNack = 64 << 10

func (r *request) setNack(v []byte) error {
	var s statusv1.Status
	if err := proto.Unmarshal(v, &s); err != nil {
		return err
	}
	message := s.GetMessage()
	r.Nack = &session.Nack{Code: s.GetCode(), Message: strings.Clone(message[:min(len(message), maxNack)])}
	return nil
}

// field returns the number and value of the first field of a message, and its size with the tag. A
// negative size is an error of protowire's. The value is nil if it is not length-delimited.
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

// shortField is field for a length-delimited one with a tag and a length of one byte each, as
// nearly all have. The size is 0 for others, and for a field that is incomplete.
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

// maxName is the length of the longest resource name. Those of virtual hosts are the longest that
// this control plane has: a listener's name and a host, each 253 bytes at most.
const maxName = 1 << 10

func addText(into *[]string, v []byte) error {
	if err := validName(v); err != nil {
		return err
	}
	*into = append(*into, string(v))
	return nil
}

func validName(v []byte) error {
	if len(v) > maxName {
		return fmt.Errorf("a resource name has %d bytes; want %d at most", len(v), maxName)
	}
	return valid(v)
}
