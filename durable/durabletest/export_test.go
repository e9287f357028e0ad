package durabletest

import "testing"

// RunEach runs each promise of the suite on what report makes for it.
func RunEach(open Open, each func(name string, run func(t testing.TB))) {
	for _, p := range promises() {
		each(p.name, func(t testing.TB) { p.run(t, open) })
	}
}
