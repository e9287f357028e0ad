package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// library makes a folder of n files with one word each.
func library(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), []byte("word\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("every way comes to the same", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		if err := run(t.Context(), []string{"-dir", library(t, 100)}, &out); err != nil {
			t.Fatalf("%v, after\n%s", err, out.String())
		}
		if !strings.HasPrefix(out.String(), "100 files, 100 words,") || strings.Count(out.String(), " ok\n") != 5 {
			t.Error(out.String())
		}
	})

	for name, way := range map[string]func(context.Context, *folder, *total) error{
		"ants": likeAnts, "ants, not blocking": likeAntsNonblocking, "pond": likePond, "pool": onPool,
	} {
		t.Run("a file that is gone is an error: "+name, func(t *testing.T) {
			t.Parallel()
			s, err := openFolder(library(t, 20))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			s.names = append(s.names, "gone")
			if err := way(t.Context(), s, &total{}); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%v", err)
			}
		})
	}

	t.Run("a folder that is not there is refused", func(t *testing.T) {
		t.Parallel()
		if err := run(t.Context(), []string{"-dir", filepath.Join(t.TempDir(), "none")}, &bytes.Buffer{}); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
}
