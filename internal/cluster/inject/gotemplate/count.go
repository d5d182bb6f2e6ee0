package gotemplate

import (
	"slices"
	"text/template/parse"
)

// countBodies lets each body of a range count a step, and each template its depth, as often as they
// are evaluated. All other nodes are evaluated at most once for each of these.
func countBodies(t *parse.Tree) {
	if t == nil || t.Root == nil {
		return
	}
	c := counter{t}
	c.visit(t.Root)
	if len(t.Root.Nodes) > 0 {
		begin, end := t.Root.Nodes[0], t.Root.Nodes[len(t.Root.Nodes)-1]
		t.Root.Nodes = slices.Concat([]parse.Node{c.call(enterName, begin)}, t.Root.Nodes,
			[]parse.Node{c.call(leaveName, end)})
	}
}

type counter struct{ tree *parse.Tree }

func (c counter) visit(list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.RangeNode:
			c.branch(&n.BranchNode)
			n.List.Nodes = append([]parse.Node{c.call(stepName, n)}, n.List.Nodes...)
		case *parse.IfNode:
			c.branch(&n.BranchNode)
		case *parse.WithNode:
			c.branch(&n.BranchNode)
		}
	}
}

func (c counter) branch(n *parse.BranchNode) {
	c.visit(n.List)
	c.visit(n.ElseList)
}

// call returns a node that calls a function without arguments, at the place of another node.
func (c counter) call(function string, at parse.Node) parse.Node {
	pos := at.Position()
	name := parse.NewIdentifier(function).SetTree(c.tree).SetPos(pos)
	return &parse.ActionNode{NodeType: parse.NodeAction, Pos: pos, Pipe: &parse.PipeNode{
		NodeType: parse.NodePipe, Pos: pos,
		Cmds: []*parse.CommandNode{{NodeType: parse.NodeCommand, Pos: pos, Args: []parse.Node{name}}},
	}}
}
