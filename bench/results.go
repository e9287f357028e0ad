package main

import (
	"encoding/csv"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// results is what was measured, row by row. Rows can be measured in separate runs: a row that is measured again
// replaces itself and nothing else.
//
//	measurements.csv  row, side, metric, round, value: every round of everything
//	series.csv        row, side, name, x, y: of the last round, distributions and depths over time
//	runs.csv          row, and what it was measured on
type results struct{ rows map[string]*measured }

// measured is a row.
type measured struct {
	values map[string]map[string][]float64 // by side and metric; one for each round
	series map[string][]point              // by side
	on     conditions
}

// conditions is what a row was measured on.
type conditions struct {
	date, commit, machine, golang, redis, versions string
}

func newMeasured() *measured {
	return &measured{values: map[string]map[string][]float64{}, series: map[string][]point{}}
}

// add notes a round of a side.
func (m *measured) add(side string, o *outcome) {
	if m.values[side] == nil {
		m.values[side] = map[string][]float64{}
	}
	for metric, value := range o.Metrics {
		m.values[side][metric] = append(m.values[side][metric], value)
	}
	m.series[side] = o.Series
}

const (
	measurementsFile = "measurements.csv"
	seriesFile       = "series.csv"
	runsFile         = "runs.csv"
)

var (
	measurementsHead = []string{"row", "side", "metric", "round", "value"}
	seriesHead       = []string{"row", "side", "name", "x", "y"}
	runsHead         = []string{"row", "date", "commit", "machine", "go", "redis", "versions"}
)

// readResults reads a folder; one that is not there has no results.
func readResults(dir string) (*results, error) {
	r := &results{rows: map[string]*measured{}}
	row := func(name string) *measured {
		if r.rows[name] == nil {
			r.rows[name] = newMeasured()
		}
		return r.rows[name]
	}
	err := readCSV(filepath.Join(dir, measurementsFile), len(measurementsHead), func(f []string) error {
		value, err := strconv.ParseFloat(f[4], 64)
		m := row(f[0])
		if m.values[f[1]] == nil {
			m.values[f[1]] = map[string][]float64{}
		}
		m.values[f[1]][f[2]] = append(m.values[f[1]][f[2]], value)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = readCSV(filepath.Join(dir, seriesFile), len(seriesHead), func(f []string) error {
		x, errX := strconv.ParseFloat(f[3], 64)
		y, errY := strconv.ParseFloat(f[4], 64)
		m := row(f[0])
		m.series[f[1]] = append(m.series[f[1]], point{f[2], x, y})
		return errors.Join(errX, errY)
	})
	if err != nil {
		return nil, err
	}
	err = readCSV(filepath.Join(dir, runsFile), len(runsHead), func(f []string) error {
		row(f[0]).on = conditions{f[1], f[2], f[3], f[4], f[5], f[6]}
		return nil
	})
	return r, err
}

func readCSV(path string, fields int, line func(f []string) error) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	reader := csv.NewReader(f)
	reader.FieldsPerRecord = fields
	all, err := reader.ReadAll()
	if err != nil {
		return err
	}
	for _, fields := range all[min(1, len(all)):] {
		if err := line(fields); err != nil {
			return err
		}
	}
	return nil
}

// write writes the folder, in the order of rows. What is no row any more is left out.
func (r *results) write(dir string, rows []*row) error {
	measurements, series, runs := [][]string{measurementsHead}, [][]string{seriesHead}, [][]string{runsHead}
	for _, row := range rows {
		m := r.rows[row.name]
		if m == nil {
			continue
		}
		runs = append(runs, []string{row.name, m.on.date, m.on.commit, m.on.machine, m.on.golang, m.on.redis, m.on.versions})
		for _, s := range row.sides {
			for _, metric := range slices.Sorted(maps.Keys(m.values[s.name])) {
				for i, value := range m.values[s.name][metric] {
					measurements = append(measurements, []string{row.name, s.name, metric, strconv.Itoa(i + 1), short(value)})
				}
			}
			for _, p := range m.series[s.name] {
				series = append(series, []string{row.name, s.name, p.Name, short(p.X), short(p.Y)})
			}
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(
		writeCSV(filepath.Join(dir, measurementsFile), measurements),
		writeCSV(filepath.Join(dir, seriesFile), series),
		writeCSV(filepath.Join(dir, runsFile), runs))
}

// short is a number with the digits that mean something.
func short(x float64) string { return strconv.FormatFloat(x, 'g', 5, 64) }

func writeCSV(path string, lines [][]string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	return errors.Join(w.WriteAll(lines), f.Close())
}
