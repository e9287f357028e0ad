package durabletest

import "testing"

// RunEach hands each promise of both suites to each, which runs it.
func RunEach(open Open, each func(name string, run func(t testing.TB))) {
	for _, p := range append(promises(), operatorPromises()...) {
		each(p.name, func(t testing.TB) {
			t.Helper()
			p.run(t, open)
		})
	}
}

// Unmade are the names in needs that no promise has.
func Unmade() []string {
	known := make(map[string]bool)
	for _, p := range append(promises(), operatorPromises()...) {
		known[p.name] = true
	}
	var unmade []string
	for name := range needs {
		if !known[name] {
			unmade = append(unmade, name)
		}
	}
	return unmade
}
