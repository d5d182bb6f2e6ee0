package measure

import (
	"os"
	"strconv"
	"strings"
)

// SendQueue returns the longest kernel send queue among the connections accepted at a port: bytes
// written and not yet acknowledged by the other end's kernel (proc_net_tcp(5), tx_queue). It
// returns 0 if this is unknown.
func SendQueue(port int) (most int64) {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if content, err := os.ReadFile(table); err == nil {
			most = max(most, maxSendQueue(string(content), port))
		}
	}
	return most
}

// maxSendQueue reads lines as "0: 0100007F:3A98 0101007F:8A3C 01 00001F40:00000000 …": local and
// remote address, state, send and receive queue, all hexadecimal.
func maxSendQueue(table string, port int) (most int64) {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[3] != established {
			continue
		}
		_, own, _ := strings.Cut(fields[1], ":")
		if n, err := strconv.ParseInt(own, 16, 32); err != nil || int(n) != port {
			continue
		}
		waits, _, _ := strings.Cut(fields[4], ":")
		n, _ := strconv.ParseInt(waits, 16, 64)
		most = max(most, n)
	}
	return most
}

// established is TCP_ESTABLISHED.
const established = "01"
