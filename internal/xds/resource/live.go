package resource

// Live gathers the resources that some Sets hold. A cache of resources can then drop the others.
type Live struct {
	seen      map[*node]bool
	resources map[*Resource]bool
}

// NewLive returns a Live without resources.
func NewLive() *Live { return &Live{seen: map[*node]bool{}, resources: map[*Resource]bool{}} }

// Add adds the resources of a set and their members. Nodes that sets share are visited once.
func (l *Live) Add(s *Set) { l.add(s.root) }

// Has reports whether a set that was added holds a resource.
func (l *Live) Has(r *Resource) bool { return l.resources[r] }

func (l *Live) add(n *node) {
	if n == nil || l.seen[n] {
		return
	}
	l.seen[n] = true
	if r := n.leaf; r != nil {
		l.resources[r] = true
		for _, g := range r.Groups() {
			l.add(g.Members.root)
		}
	}
	for _, k := range n.kids {
		l.add(k)
	}
}
