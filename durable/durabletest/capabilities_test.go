package durabletest_test

import (
	"testing"

	"github.com/seed-9dec4fca/weir/durable/durabletest"
)

// A promise that was renamed would otherwise be asked of engines that do not make it.
func TestEveryConditionalPromiseExists(t *testing.T) {
	t.Parallel()
	if unmade := durabletest.Unmade(); len(unmade) > 0 {
		t.Errorf("no promise is called %q", unmade)
	}
}
