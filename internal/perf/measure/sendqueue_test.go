package measure

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSendQueueIsTheLongestOfAPort(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:3A98 00000000:0000 0A 00000000:00000005 00:00000000 00000000     0        0 1
   1: 0100007F:3A98 0101007F:8A3C 01 00001F40:00000000 00:00000000 00000000     0        0 2
   2: 0100007F:3A98 0101007F:8A3D 01 00000010:00000000 00:00000000 00000000     0        0 3
   3: 0101007F:8A3C 0100007F:3A98 01 0000FFFF:00000000 00:00000000 00000000     0        0 4
   4: 0100007F:3A98 0101007F:8A3E 06 0000FFFF:00000000 00:00000000 00000000     0        0 5
nonsense
`
	require.EqualValues(t, 8000, maxSendQueue(table, 0x3a98))
	require.Zero(t, maxSendQueue(table, 80))
	require.Zero(t, SendQueue(1))
}
