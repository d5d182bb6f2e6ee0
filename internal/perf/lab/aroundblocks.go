package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// blockProxies is how many proxies have their metrics in a block, and blockTime of how long it is,
// as Prometheus makes them.
const (
	blockProxies = 1
	blockTime    = 2 * time.Hour
)

// scrapeIntervals are those that are reckoned with.
func scrapeIntervals() []time.Duration {
	return []time.Duration{15 * time.Second, 30 * time.Second, time.Minute}
}

// retentions are those that are reckoned with: KubeCon's Istio kept 6 h, and 15 days are
// Prometheus' default.
func retentions() []time.Duration {
	return []time.Duration{6 * time.Hour, 24 * time.Hour, 15 * 24 * time.Hour}
}

func blockTableOf() Table {
	t := Table{Title: "Prometheus, blocks of two hours, measured", Columns: []Column{
		{"series", Count}, {"samples", Count}, {"1,000,000 samples", Bytes},
	}}
	for _, i := range scrapeIntervals() {
		t.Rows = append(t.Rows, row(fmt.Sprintf("scraped every %.0f s", i.Seconds()), len(t.Columns)))
	}
	return t
}

func reckonedTableOf() Table {
	t := Table{Title: "Prometheus of KubeCon's 6,000 proxies, reckoned from these", Columns: []Column{
		{"series", Count}, {"samples", PerSecond}, {"CPU", Cores}, {"memory", Bytes},
		{"disk, kept 6 h", Bytes}, {"disk, kept 24 h", Bytes}, {"disk, kept 15 days", Bytes},
	}}
	for i, interval := range scrapeIntervals() {
		published := []string{"", "", "5.11", "66064 MiB"}
		if i > 0 { // Istio 1.1 scraped every 15 s
			published = nil
		}
		name := fmt.Sprintf("scraped every %.0f s", interval.Seconds())
		t.Rows = append(t.Rows, row(name, len(t.Columns), published...))
	}
	return t
}

// prometheusCost is what a Prometheus takes.
type prometheusCost struct {
	base   float64 // memory of one without proxies, in bytes
	series float64 // of each proxy
	memory float64 // of a series, in bytes
	sample float64 // CPU of a sample, in seconds
	// disk is the size of a sample in bytes at each of scrapeIntervals; empty if unknown.
	disk []float64
}

// reckon fills the table of KubeCon's mesh.
func (r *run) reckon(c prometheusCost) {
	series := kubeconProxies * c.series
	for i, interval := range scrapeIntervals() {
		samples := series / interval.Seconds()
		figures := []float64{series, samples, samples * c.sample, c.base + series*c.memory}
		for _, kept := range retentions() {
			if i < len(c.disk) {
				figures = append(figures, samples*kept.Seconds()*c.disk[i])
			}
		}
		r.tables[reckonedTable].put(i, figures...)
	}
}

// measureBlocks has promtool write the metrics of two hours, as many as there are at each interval.
func (r *run) measureBlocks(ctx context.Context, c *prometheusCost) error {
	if r.Tools.Promtool == "" {
		r.note("What Prometheus keeps on disk is not measured, since there is no promtool: make prometheus puts it " +
			"into .tools.")
		return nil
	}
	for i, interval := range scrapeIntervals() {
		r.Progress("writing blocks", i, len(scrapeIntervals()))
		samples, size, err := r.block(ctx, interval)
		if err != nil {
			return err
		}
		c.disk = append(c.disk, size/samples)
		r.tables[blockTable].put(i, float64(blockProxies*proxySeries()), samples, 1e6*size/samples)
	}
	return nil
}

// block returns how many samples a block of an interval has, and its size in bytes.
func (r *run) block(ctx context.Context, interval time.Duration) (samples, size float64, err error) {
	dir, err := os.MkdirTemp(r.StateDir, "blocks-")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	text, blocks := filepath.Join(dir, "metrics.txt"), filepath.Join(dir, "blocks")
	if samples, err = writeOpenMetrics(text, interval); err != nil {
		return 0, 0, err
	}
	out, err := exec.CommandContext(ctx, r.Tools.Promtool, "tsdb", "create-blocks-from", "openmetrics", text,
		blocks).CombinedOutput()
	if err != nil {
		return 0, 0, fmt.Errorf("promtool: %w: %s", err, out)
	}
	err = filepath.WalkDir(blocks, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += float64(info.Size())
		}
		return err
	})
	return samples, size, err
}

// writeOpenMetrics writes the metrics of proxies over the time of a block, and returns how many
// samples these are.
func writeOpenMetrics(file string, interval time.Duration) (samples float64, err error) {
	f, err := os.Create(file)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriterSize(f, 1<<20)
	begin := time.Unix(0, 0).Add(200_000 * blockTime) // blocks begin at multiples of their time
	for n := range blockProxies {
		m := newProxyMetrics(n, begin.Add(-time.Hour))
		for at := begin; at.Before(begin.Add(blockTime)); at = at.Add(interval) {
			if err := m.write(out, at, fmt.Sprintf(" %d", at.Unix())); err != nil {
				return 0, err
			}
			samples += float64(proxySeries())
		}
	}
	if _, err := out.WriteString("# EOF\n"); err != nil {
		return 0, err
	}
	return samples, out.Flush()
}
