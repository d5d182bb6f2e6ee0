package meshlife

import (
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

func drawEgress(t *rapid.T) []model.EgressListener {
	var list []model.EgressListener
	for range one(t, "listeners", 1, 1, 2) {
		list = append(list, drawShown(t))
	}
	if rarely(t, 3, "own listener") {
		if l := drawOwnListener(t); rapid.Bool().Draw(t, "alone") {
			list = []model.EgressListener{l}
		} else {
			list = append(list, l)
		}
	}
	return list
}

// drawShown draws what a listener shows.
func drawShown(t *rapid.T) model.EgressListener {
	l := model.EgressListener{Hosts: drawScoped(t)}
	if rarely(t, 3, "hides") {
		l.Hidden = drawScoped(t)
	}
	return l
}

// drawOwnListener draws a listener with a port or a Unix socket.
func drawOwnListener(t *rapid.T) model.EgressListener {
	l := drawShown(t)
	l.Requests, l.OwnPort = rapid.Bool().Draw(t, "requests"), rapid.Bool().Draw(t, "own port")
	if rarely(t, 5, "socket") {
		l.Requests, l.Bind = true, "unix:///run/"+one(t, "socket", "a", "b")
		return l
	}
	l.Port = one(t, "listener port", ports...)
	l.AllPorts = l.Requests && rarely(t, 4, "proxy")
	l.Bind = one(t, "listener address", "", "", "", "127.0.0.1", "127.0.0.8", "127.1.0.1", "0.0.0.0")
	return l
}
