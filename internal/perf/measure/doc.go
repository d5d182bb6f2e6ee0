// Package measure looks at processes and numbers: what a control plane uses, as the kernel or its own metrics tell it, the machine that
// it runs on, and percentiles. Nothing in it knows what is measured for. It imports nothing of Lateen.
package measure
