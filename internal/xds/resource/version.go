package resource

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// Version is the content version of a Resource or a Set: 96 bits of a SHA-256 over its bytes. The
// same content has the same version in every process, so that a client that reconnects can say what
// it has. Tenants cannot make two contents collide.
type Version [12]byte

// String returns the form that goes on the wire: 16 characters of URL-safe base64.
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

// IsZero reports whether there is no version. No content hashes to zero.
func (v Version) IsZero() bool { return v == Version{} }

// splitBit is the last bit of a route table's version: it is set for the head of a table in split
// form. So what a client reports says in which form it has its tables.
const splitBit = 1

// IsWhole reports whether the version is that of a whole route table.
func (v Version) IsWhole() bool { return v[len(v)-1]&splitBit == 0 }

// collectionBit is the last bit of an assignment's version. It tells the forms apart likewise, see
// collections.go.
const collectionBit = 1

// ListVersion reports whether the version is that of an assignment in the form of collections. It
// returns the version that the same endpoints have in a list.
func (v Version) ListVersion() (listed Version, ok bool) {
	ok = v[len(v)-1]&collectionBit != 0
	v[len(v)-1] &^= collectionBit
	return v, ok
}

// ParseVersion reads what String wrote. It returns false for anything else, such as another control
// plane's version.
func ParseVersion(s string) (Version, bool) {
	var v Version
	if len(s) != versionText {
		return v, false
	}
	n, err := base64.RawURLEncoding.Decode(v[:], []byte(s))
	return v, err == nil && n == len(v)
}

// versionOfParts is versionOf for parts that appendPart has joined.
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
