package callers

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strconv"
)

// Fields of a line of /proc/net/tcp.
const (
	localField  = 1
	remoteField = 2
	uidField    = 7
	inodeField  = 9
)

// parse reads a line of /proc/net/tcp or tcp6. It returns false unless the line is the end at from
// of a connection to to, and a process has it: without one, the inode is 0.
func parse(line []byte, from, to netip.AddrPort) (socket, bool) {
	fields := bytes.Fields(line)
	if len(fields) <= inodeField || !isAddress(fields[localField], from) || !isAddress(fields[remoteField], to) {
		return socket{}, false
	}
	uid, err := strconv.Atoi(string(fields[uidField]))
	if err != nil {
		return socket{}, false
	}
	inode, err := strconv.Atoi(string(fields[inodeField]))
	return socket{uid: uid, inode: inode}, err == nil && inode != 0
}

// isAddress reports whether a field, as "0100007F:3A98", is an address and port. Words of an
// address stand there in the machine's order of bytes.
func isAddress(field []byte, want netip.AddrPort) bool {
	address, port, found := bytes.Cut(field, []byte{':'})
	if !found {
		return false
	}
	n, err := strconv.ParseUint(string(port), 16, 16)
	if err != nil || uint16(n) != want.Port() {
		return false
	}
	var raw [16]byte
	size, err := hex.Decode(raw[:], address[:min(len(address), 2*len(raw))])
	if err != nil {
		return false
	}
	for i := 0; i+4 <= size; i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	got, ok := netip.AddrFromSlice(raw[:size])
	return ok && got.Unmap() == want.Addr().Unmap()
}
