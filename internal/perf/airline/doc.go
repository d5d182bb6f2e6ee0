// Package airline owns the application of lateen perf app: an airline of five services, as Acme Air
// (BluePerf) has them, each with data of its own in an embedded database. It owns the clients that
// send the published mix of transactions, and the plan with which JMeter sends it, too. It imports
// nothing of Lateen.
package airline
