package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Figures in documents stand between markers, and everything between them is made from the results:
//
//	<!-- bench:begin goals -->
//	<!-- bench:end goals -->

// documents is where there are figures, from the root.
var documents = []string{"README.md", "docs/performance.md"}

const (
	beginMark = "<!-- bench:begin "
	endMark   = "<!-- bench:end "
	markEnd   = " -->"
)

// fill puts new text between the markers of a document. Nothing else is changed.
func fillBlocks(text string, block func(name string) (string, error)) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, beginMark)
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, rest, ok := strings.Cut(rest, markEnd)
		_, after, closed := strings.Cut(rest, endMark+name+markEnd)
		if !ok || !closed {
			return "", fmt.Errorf("block %q has no end", name)
		}
		content, err := block(name)
		if err != nil {
			return "", err
		}
		b.WriteString(beginMark + name + markEnd + "\n" + content + endMark + name + markEnd)
		text = after
	}
}

// block makes the text of a block. Links go out from the folder of the document.
func (r *results) block(name, document string) (string, error) {
	toRoot, err := filepath.Rel(filepath.Dir(document), ".")
	if err != nil {
		return "", err
	}
	plots := filepath.ToSlash(filepath.Join(toRoot, "bench", "results"))
	var text string
	switch {
	case name == "summary":
		text = r.summary(plots)
	case name == "goals":
		text = r.goals()
	case name == "conditions":
		text = r.conditions()
	case slices.Contains(families, strings.ReplaceAll(name, "-", " ")):
		text = r.table(strings.ReplaceAll(name, "-", " "), plots)
	default:
		return "", fmt.Errorf("there is no block %q", name)
	}
	if text == "" {
		text = "Not measured yet.\n"
	}
	return text, nil
}

// summary is the few ratios of the front page.
func (r *results) summary(plots string) string {
	var b strings.Builder
	for _, w := range rows(true) {
		m := r.rows[w.name]
		if m == nil || len(w.goals) == 0 || w.goals[0].than == "" || w.family == "curves" || w.name == "reject" {
			continue
		}
		g := w.goals[0]
		q := m.ratio(weir, g.than, w.metric)
		if q.rounds == 0 {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s %s | %s %s | %s × %s |\n", w.title, m.of(weir, w.metric), w.metric,
			m.of(g.than, w.metric), w.metric, q, g.than)
	}
	if b.Len() == 0 {
		return ""
	}
	return "| | weir | the other | ratio, round by round |\n|---|---|---|---|\n" + b.String() +
		fmt.Sprintf("\n![jobs a second](%s/%s)\n", plots, throughputPlot)
}

// goals is the table of goals and what was reached.
func (r *results) goals() string {
	var b strings.Builder
	for _, w := range rows(true) {
		m := r.rows[w.name]
		if m == nil {
			continue
		}
		for _, v := range m.verdicts(w) {
			title := w.title
			if v.goal.side == "*" {
				title += ": " + v.side
			}
			if v.goal.metric != "" {
				title += ", " + v.metric
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", w.name, title, v.aim(), v.got, v.result())
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "| row | what | goal | measured | |\n|---|---|---|---|---|\n" + b.String()
}

// conditions is what the rows were measured on, and how the sides were set up.
func (r *results) conditions() string {
	type group struct {
		on    conditions
		names []string
	}
	var groups []*group
	for _, w := range rows(true) {
		m := r.rows[w.name]
		if m == nil {
			continue
		}
		on := m.on
		if on.redis == "" { // a row without a server
			on.redis = "–"
		}
		i := slices.IndexFunc(groups, func(g *group) bool { return g.on == on })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{on: on})
		}
		groups[i].names = append(groups[i].names, "`"+w.name+"`")
	}
	if groups == nil {
		return ""
	}
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, "- %s: %s, weir %s, Go %s, Redis %s, on %s. %s.\n",
			strings.Join(g.names, ", "), g.on.date, g.on.commit, g.on.golang, g.on.redis, g.on.machine, g.on.versions)
	}
	fmt.Fprintf(&b, "\n- **Redis**: %s.\n", serverConfig)
	for _, i := range implementations() {
		fmt.Fprintf(&b, "- **%s**: %s.\n", i.name, i.config)
	}
	for _, p := range pools {
		fmt.Fprintf(&b, "- in process, **%s**: %s.\n", p.name, p.config)
	}
	return b.String()
}

// table is the rows of a family, all sides.
func (r *results) table(family, plots string) string {
	var b strings.Builder
	for _, w := range rows(true) {
		m := r.rows[w.name]
		if m == nil || w.family != family {
			continue
		}
		for i, s := range w.sides {
			if m.values[s.name] == nil {
				continue
			}
			name := ""
			if i == 0 {
				name = fmt.Sprintf("`%s` %s", w.name, w.title)
			}
			fmt.Fprintf(&b, "| %s | %s |", name, s.name)
			for _, c := range columns[family] {
				text := ""
				if m.values[s.name][c] != nil {
					text = number(m.of(s.name, c).median)
					if c == w.metric {
						text = m.of(s.name, c).String()
					}
				}
				fmt.Fprintf(&b, " %s |", text)
			}
			var ratios []string
			for _, p := range w.pairs() {
				if q := m.ratio(p.a, p.b, w.metric); p.a == s.name && q.rounds > 0 {
					ratios = append(ratios, fmt.Sprintf("%s × %s", q, p.b))
				}
			}
			fmt.Fprintf(&b, " %s |\n", strings.Join(ratios, ", "))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	cells := slices.Concat([]string{"row", "side"}, columns[family], []string{"ratio"})
	for _, p := range plotsOf(r) {
		if p.family == family {
			fmt.Fprintf(&b, "\n![%s](%s/%s)\n", p.title, plots, p.file)
		}
	}
	return "| " + strings.Join(cells, " | ") + " |\n" + strings.Repeat("|---", len(cells)) + "|\n" + b.String()
}

// generate makes every document anew, by path.
func (r *results) generate(root string) (map[string]string, error) {
	made := map[string]string{}
	for _, d := range documents {
		path := filepath.Join(root, filepath.FromSlash(d))
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		made[path], err = fillBlocks(string(text), func(name string) (string, error) { return r.block(name, d) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d, err)
		}
	}
	return made, nil
}

// draw writes the plots for which there are figures.
func (r *results) draw(dir string) error {
	for _, p := range plotsOf(r) {
		if err := os.WriteFile(filepath.Join(dir, p.file), []byte(p.svg), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func writeDocuments(root, dir string) error {
	r, err := readResults(dir)
	if err != nil {
		return err
	}
	made, err := r.generate(root)
	if err != nil {
		return err
	}
	for path, text := range made {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return r.draw(dir)
}

// checkDocuments names every document and plot that is not what the results make of it.
func checkDocuments(root, dir string) error {
	r, err := readResults(dir)
	if err != nil {
		return err
	}
	made, err := r.generate(root)
	if err != nil {
		return err
	}
	for _, p := range plotsOf(r) {
		made[filepath.Join(dir, p.file)] = p.svg
	}
	var wrong []error
	for path, want := range made {
		got, err := os.ReadFile(path)
		switch {
		case err != nil:
			wrong = append(wrong, err)
		case string(got) != want:
			wrong = append(wrong, fmt.Errorf("%s is not what the results say: run go run . -docs in bench", path))
		}
	}
	return errors.Join(wrong...)
}
