package measure

import (
	"os"
	"strconv"
	"strings"
)

// SendQueue is the most that the kernel of this machine holds for one connection of those that were accepted at a port: bytes written and
// not yet acknowledged by the other end's kernel (proc_net_tcp(5), tx_queue); 0 where nobody tells.
func SendQueue(port int) (most int64) {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if content, err := os.ReadFile(table); err == nil {
			most = max(most, sendQueue(string(content), port))
		}
	}
	return most
}

// sendQueue reads lines as "0: 0100007F:3A98 0101007F:8A3C 01 00001F40:00000000 …": own address, the other's, state, and
// what waits to be sent and to be read, all hexadecimal.
func sendQueue(table string, port int) (most int64) {
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
