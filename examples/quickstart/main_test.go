package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-9dec4fca/weir/internal/check"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"", "wait", "reject", "drop", "drop-oldest"} {
		t.Run("the table adds up with policy "+policy, func(t *testing.T) {
			t.Parallel()
			args := []string{"-dir", files(t), "-for", "300ms"}
			if policy != "" {
				args = append(args, "-policy", policy)
			}
			out := runs(t, args, "")
			if !strings.Contains(out, "Nothing survives the process") {
				t.Error("does not say that nothing survives the process")
			}
			account(t, out, map[string]string{"drop": "dropped", "reject": "rejected, full", "drop-oldest": "evicted"}[policy])
		})
	}
}

func TestRunOnARealServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	out := runs(t, []string{"-dir", files(t), "-for", "300ms"}, "redis://"+server.Addr())
	account(t, out, "")

	keys, err := server.Client(t).Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) > 0 {
		t.Errorf("left on the server: %v", keys)
	}
}

// The example does what it says: the checksums are those of the files.
func TestRunChecksumsTheFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	big := bytes.Repeat([]byte("weir"), blockSize/4+1)
	write(t, filepath.Join(dir, "a"), []byte("alpha"))
	write(t, filepath.Join(dir, "b"), big)
	write(t, filepath.Join(dir, ".hidden"), []byte("not looked at"))
	outside := t.TempDir()
	write(t, filepath.Join(outside, "secret"), []byte("not looked at either"))
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "folder")); err != nil {
		t.Fatal(err)
	}

	all := sha256.New()
	for _, b := range [][]byte{[]byte("alpha"), big[:blockSize], big[blockSize:]} {
		sum := sha256.Sum256(b)
		all.Write(sum[:])
	}
	want := fmt.Sprintf("3 of 3 blocks done, together sha256 %x\n", all.Sum(nil)[:8])

	if out := runs(t, []string{"-dir", dir, "-for", "200ms", "-policy", "wait"}, ""); !strings.Contains(out, want) {
		t.Errorf("no line %q in\n%s", want, out)
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		url  string
		want string
	}{
		"an unknown policy, by name":    {[]string{"-policy", "hope"}, "", `"hope"`},
		"a folder that is not there":    {[]string{"-dir", "no-such-folder"}, "", "no-such-folder"},
		"a time that is too long":       {[]string{"-for", "1h"}, "", "-for"},
		"a server that does not answer": {nil, "redis://127.0.0.1:1", "no answer from 127.0.0.1:1"},
		"an address that is none":       {nil, "http://example.org", "REDIS_URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := run(t.Context(), c.args, c.url, &out)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error about %s", err, c.want)
			}
		})
	}
}

// runs is run without an error, and returns what was printed.
func runs(t *testing.T, args []string, url string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(context.Background(), args, url, &out); err != nil {
		t.Fatalf("%v, after\n%s", err, out.String())
	}
	return out.String()
}

// account checks the table, and that there is something in the row named.
func account(t *testing.T, out, row string) {
	t.Helper()
	table, err := check.ReadTable(strings.NewReader(out))
	if err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if err := table.Conserved(); err != nil {
		t.Errorf("%v in\n%s", err, out)
	}
	if row != "" && table[row] == 0 {
		t.Errorf("nothing %s in\n%s", row, out)
	}
	for _, latency := range stepNames {
		if !strings.Contains(out, "\n  "+latency+" ") {
			t.Errorf("no latency of %s", latency)
		}
	}
}

// files makes a folder with something to do.
func files(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for i := range 20 {
		write(t, filepath.Join(dir, fmt.Sprint(i)), bytes.Repeat([]byte{byte(i)}, blockSize*(i%3)+100))
	}
	return dir
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
