package resource

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// Version is the content version of a Resource or a Set: 96 bits of a SHA-256 over its bytes. The
// same content has the same version in every process, so that a reconnecting client can say what it
// has; tenants cannot make two contents collide.
type Version [12]byte

// String is the form that goes on the wire: 16 characters of URL-safe base64.
func (v Version) String() string {
	text := v.text()
	return string(text[:])
}

// versionText is the length of a version in base64.
const versionText = 16

func (v Version) text() (text [versionText]byte) {
	base64.RawURLEncoding.Encode(text[:], v[:])
	return text
}

// IsZero tells that there is no version: nothing has content that hashes to it.
func (v Version) IsZero() bool { return v == Version{} }

// The last bit of a route table's version tells its forms apart, so that what a client reports says
// in which it has its tables.
const inPieces = 1

// IsWhole tells of the version of a route table that the table has its virtual hosts in it.
func (v Version) IsWhole() bool { return v[len(v)-1]&inPieces == 0 }

// The last bit of an assignment's version tells its forms apart likewise, see collections.go.
const collected = 1

// Collected tells of the version of an assignment that its endpoints are in collections, and
// returns the one that the same endpoints have in a list.
func (v Version) Collected() (listed Version, ok bool) {
	ok = v[len(v)-1]&collected != 0
	v[len(v)-1] &^= collected
	return v, ok
}

// ParseVersion reads what String wrote. Anything else, as another control plane's version, gives
// false.
func ParseVersion(s string) (Version, bool) {
	var v Version
	if len(s) != versionText {
		return v, false
	}
	n, err := base64.RawURLEncoding.Decode(v[:], []byte(s))
	return v, err == nil && n == len(v)
}

// versionOfParts is versionOf for parts that appendPart has put together.
func versionOfParts(parts []byte) Version {
	sum := sha256.Sum256(parts)
	return Version(sum[:12])
}

// appendPart appends a part with its length.
func appendPart(b, part []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(part))), part...)
}

func versionOf(parts ...[]byte) Version {
	h := sha256.New()
	var length [4]byte
	for _, p := range parts {
		n := len(p)
		length[0], length[1], length[2], length[3] = byte(n), byte(n>>8), byte(n>>16), byte(n>>24)
		h.Write(length[:])
		h.Write(p)
	}
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	return Version(sum[:12])
}
