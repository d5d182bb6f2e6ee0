package view

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// Version is the content version of a Resource or a Set: 96 bits of a SHA-256 over its bytes. The same content has
// the same version in every process, so that a reconnecting client can say what it has; tenants cannot make two
// contents collide.
type Version [12]byte

// String is the form that goes on the wire: 16 characters of URL-safe base64.
func (v Version) String() string { return base64.RawURLEncoding.EncodeToString(v[:]) }

// IsZero tells that there is no version: nothing has content that hashes to it.
func (v Version) IsZero() bool { return v == Version{} }

// ParseVersion reads what String wrote. Anything else, as another control plane's version, gives false.
func ParseVersion(s string) (Version, bool) {
	var v Version
	if len(s) != 16 {
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
