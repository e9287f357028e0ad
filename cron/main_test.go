package cron_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-9dec4fca/weir/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.Main(m)) }
