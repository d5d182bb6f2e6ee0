package envoymodel

import (
	"time"

	"google.golang.org/protobuf/proto"
)

// NewPeer is a model that has just been started and has opened its stream, as a Peer.
func NewPeer(o Options) Peer {
	p := &modelPeer{envoy: New(o, time.Unix(0, 0))}
	p.said = p.envoy.Connect()
	return p
}

type modelPeer struct {
	envoy *Envoy
	said  []proto.Message
}

func (p *modelPeer) hear(said []proto.Message) error {
	p.said = append(p.said, said...)
	return nil
}

// Deliver hands over one response.
func (p *modelPeer) Deliver(response proto.Message) error { return p.hear(p.envoy.Receive(response)) }

// Drop opens another stream.
func (p *modelPeer) Drop() error { return p.hear(p.envoy.Connect()) }

// Pass lets time pass.
func (p *modelPeer) Pass(d time.Duration) error { return p.hear(p.envoy.Advance(p.envoy.now.Add(d))) }

// Settle returns what was said and what there is.
func (p *modelPeer) Settle() ([]proto.Message, Summary, error) {
	said := append(p.said, p.envoy.Flush()...)
	p.said = nil
	return said, p.envoy.Summary(), nil
}
