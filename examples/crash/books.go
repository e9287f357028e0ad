package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-9dec4fca/weir/bridge"
)

// books are the effects of the jobs, in files: outside Redis, as a mail or a payment is.
type books struct{ dir string }

func (b books) ledger() string           { return filepath.Join(b.dir, "ledger") }
func (b books) receipt(id string) string { return filepath.Join(b.dir, id+".receipt") }

// charge has two effects: a line in the ledger, each time; and a receipt, which is made only
// if there is none for this ID, so that repetition is harmless.
func (b books) charge(d *bridge.Delivery[order]) error {
	ledger, err := os.OpenFile(b.ledger(), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(ledger, "%s %s %d cents, delivery %d\n", d.ID, d.Value.Customer, d.Value.Cents, d.Deliveries)
	if err := errors.Join(err, ledger.Sync(), ledger.Close()); err != nil {
		return err
	}
	receipt, err := os.OpenFile(b.receipt(d.ID), os.O_APPEND|os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil // made by an earlier delivery
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(receipt, "%d cents received, delivery %d\n", d.Value.Cents, d.Deliveries)
	return errors.Join(err, receipt.Sync(), receipt.Close())
}

// lines are those of the ledger that are about id.
func (b books) lines(id string) (lines []string, err error) {
	text, err := os.ReadFile(b.ledger())
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, id+" ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines, err
}

// receipts counts how often one was made for id.
func (b books) receipts(id string) (int, error) {
	text, err := os.ReadFile(b.receipt(id))
	return strings.Count(string(text), "received"), err
}
