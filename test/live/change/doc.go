// Package change holds the tests of a mesh that changes while it serves. They run the built binary,
// "lateen up DIR", as a person does, with real Envoys: edit files, read the screen, count the
// answers that go wrong. It may import nothing of Lateen.
package change
