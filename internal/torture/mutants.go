package main

import (
	"context"
	"io"
	"regexp"
)

func tryMutants(_ context.Context, _ *regexp.Regexp, _ settings, _, _ io.Writer) int { return 2 }
