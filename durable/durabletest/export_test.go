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
