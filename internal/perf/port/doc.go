// Package port reserves TCP ports on loopback for processes that listen there later, end, and
// listen there again. Meanwhile no other process gets the port as a listener or as the source of a
// connection, and connections to it are refused. It imports nothing of Lateen.
package port
