// Package jmeter runs Apache JMeter without its window, as several processes that run one plan at
// the same time, reads the results that they and JMeters on other hosts write (JTL files in CSV),
// and merges them into one report. It imports cli/terminal and perf/measure.
package jmeter
