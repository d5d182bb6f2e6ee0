// Package port keeps TCP ports of loopback for processes that listen there later, end, and listen there again: meanwhile nobody else
// gets them, neither to listen at nor as the source of a connection, and who connects is refused.
//
// It imports nothing of Lateen.
package port
