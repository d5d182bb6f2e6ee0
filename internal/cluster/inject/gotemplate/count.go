package gotemplate

import (
	"fmt"
	"slices"
	"text/template/parse"
)

// counter changes templates so that they count what they take: each body of a range a step, each
// template its depth, as often as they are evaluated. All other nodes are evaluated at most once
// for each of these. What an action prints goes through a function that looks at its size.
type counter struct {
	tree    *parse.Tree
	methods map[string]bool // that may not be called
	called  map[string]bool // the functions that are called
}

func (c *counter) template(t *parse.Tree) error {
	if t == nil || t.Root == nil {
		return nil
	}
	c.tree = t
	if err := c.list(t.Root, 0); err != nil {
		return err
	}
	if nodes := t.Root.Nodes; len(nodes) > 0 {
		t.Root.Nodes = slices.Concat([]parse.Node{c.call(enterName, nodes[0])}, nodes,
			[]parse.Node{c.call(leaveName, nodes[len(nodes)-1])})
	}
	return nil
}

// list visits nodes at a depth of blocks within each other.
func (c *counter) list(list *parse.ListNode, depth int) error {
	if list == nil {
		return nil
	}
	if depth > maxDepth {
		return c.refuse(list, fmt.Sprintf("has more than %d blocks within each other", maxDepth))
	}
	for _, node := range list.Nodes {
		if err := c.node(node, depth); err != nil {
			return err
		}
	}
	return nil
}

func (c *counter) node(node parse.Node, depth int) error {
	switch n := node.(type) {
	case *parse.RangeNode:
		if err := c.branch(&n.BranchNode, depth); err != nil {
			return err
		}
		n.List.Nodes = append([]parse.Node{c.call(stepName, n)}, n.List.Nodes...)
	case *parse.IfNode:
		return c.branch(&n.BranchNode, depth)
	case *parse.WithNode:
		return c.branch(&n.BranchNode, depth)
	case *parse.TemplateNode:
		return c.pipe(n.Pipe, depth)
	case *parse.ActionNode:
		if err := c.pipe(n.Pipe, depth); err != nil {
			return err
		}
		if len(n.Pipe.Decl) == 0 {
			n.Pipe.Cmds = append(n.Pipe.Cmds, c.command(printName, n))
		}
	}
	return nil
}

func (c *counter) branch(n *parse.BranchNode, depth int) error {
	if err := c.pipe(n.Pipe, depth); err != nil {
		return err
	}
	if err := c.list(n.List, depth+1); err != nil {
		return err
	}
	return c.list(n.ElseList, depth+1)
}

// pipe looks at what a pipeline calls.
func (c *counter) pipe(n *parse.PipeNode, depth int) error {
	if n == nil {
		return nil
	}
	if depth > maxDepth {
		return c.refuse(n, fmt.Sprintf("has more than %d parentheses within each other", maxDepth))
	}
	for _, command := range n.Cmds {
		for _, arg := range command.Args {
			if err := c.operand(arg, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *counter) operand(node parse.Node, depth int) error {
	switch n := node.(type) {
	case *parse.IdentifierNode:
		c.called[n.Ident] = true
	case *parse.FieldNode:
		return c.names(n, n.Ident)
	case *parse.VariableNode:
		return c.names(n, n.Ident[1:])
	case *parse.PipeNode:
		return c.pipe(n, depth+1)
	case *parse.ChainNode:
		if err := c.names(n, n.Field); err != nil {
			return err
		}
		return c.operand(n.Node, depth+1)
	}
	return nil
}

// names refuses methods that change what they are called on, or make as much as they like.
func (c *counter) names(at parse.Node, names []string) error {
	for _, name := range names {
		if c.methods[name] {
			return c.refuse(at, "calls the method "+name+"; want fields, getters or String")
		}
	}
	return nil
}

func (c *counter) refuse(at parse.Node, why string) error {
	where, what := c.tree.ErrorContext(at)
	return fmt.Errorf("%s: <%s>: %s", where, what, why)
}

// call returns a node that calls a function without arguments, at the place of another node.
func (c *counter) call(function string, at parse.Node) parse.Node {
	pos := at.Position()
	return &parse.ActionNode{NodeType: parse.NodeAction, Pos: pos, Pipe: &parse.PipeNode{
		NodeType: parse.NodePipe, Pos: pos, Cmds: []*parse.CommandNode{c.command(function, at)},
	}}
}

func (c *counter) command(function string, at parse.Node) *parse.CommandNode {
	pos := at.Position()
	name := parse.NewIdentifier(function).SetTree(c.tree).SetPos(pos)
	return &parse.CommandNode{NodeType: parse.NodeCommand, Pos: pos, Args: []parse.Node{name}}
}
