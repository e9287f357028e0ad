package cron_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/cron"
	"github.com/seed-9dec4fca/weir/durable"
)

type Report struct{ Of string }

// Every instance of a program does this. In earnest the queue is a list in Redis, and the notes are beside it:
// cron.NewRedisNotes(rdb, "mail", nil).
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	q, err := bridge.Open(durable.NewMemory(nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	reports := bridge.NewKind[Report](q, "report", nil)
	if err := reports.Handle(func(_ context.Context, d *bridge.Delivery[Report]) error {
		name, tick, _ := cron.Tick(d.ID)
		fmt.Println(name, "report of", d.Value.Of, "on a whole second:", tick.Nanosecond() == 0)
		cancel()
		return nil
	}); err != nil {
		fmt.Println(err)
		return
	}
	ran := make(chan error, 1)
	go func() { ran <- q.Run(ctx, nil) }() // or in other processes

	s := cron.New(cron.NewMemoryNotes(), nil)
	err = cron.Add(s, reports, "frequent", "* * * * * *", Report{Of: "sales"}, &cron.ScheduleOptions{Missed: cron.RunLatest})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("scheduler:", s.Run(ctx)) // until ctx ends
	fmt.Println("queue:", <-ran)
	if _, err := q.Shutdown(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// frequent report of sales on a whole second: true
	// scheduler: <nil>
	// queue: <nil>
}

// When a schedule ticks, clocks that are moved included.
func ExampleParse() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	nightly, err := cron.Parse("30 2 * * *", berlin)
	if err != nil {
		fmt.Println(err)
		return
	}
	tick := time.Date(2026, 3, 28, 0, 0, 0, 0, berlin)
	for range 3 {
		tick = nightly.Next(tick)
		fmt.Println(tick.Format(time.RFC3339))
	}
	_, err = cron.Parse("@every 5m", nil)
	fmt.Println(err)
	// Output:
	// 2026-03-28T02:30:00+01:00
	// 2026-03-29T03:00:00+02:00
	// 2026-03-30T02:30:00+02:00
	// cron: expression "@every 5m" has no place on a wall clock, so instances would not agree
}
