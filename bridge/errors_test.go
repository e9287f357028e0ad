package bridge_test

import (
	"errors"
	"testing"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// A program that moved from a pool to a queue by its constructors went on testing for the pool's errors, which a queue did not
// return.
func TestErrorsOfPoolsAndQueuesAreTheSame(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string][2]error{
		"ErrStopping":   {bridge.ErrStopping, local.ErrStopping},
		"ErrStuck":      {bridge.ErrStuck, local.ErrStuck},
		"ErrRunning":    {bridge.ErrRunning, local.ErrRunning},
		"ErrHandlerSet": {bridge.ErrHandlerSet, local.ErrHandlerSet},
		"ErrNoHandler":  {bridge.ErrNoHandler, local.ErrNoHandler},
		"ErrShutdown":   {bridge.ErrShutdown, local.ErrShutdown},
	} {
		if !errors.Is(pair[0], pair[1]) || !errors.Is(pair[1], pair[0]) {
			t.Errorf("%s: %v is not %v", name, pair[0], pair[1])
		}
	}
	if !errors.Is(bridge.ErrShutdown, policy.ErrClosed) {
		t.Error("ErrShutdown does not match policy.ErrClosed")
	}
}
