// Package cron submits recurring jobs to a queue of weir: each tick of a schedule exactly once, however many
// instances of a program run the same schedules.
//
//	notes, err := cron.NewRedisNotes(rdb, "mail", nil)
//	s := cron.New(notes, nil)
//	err = cron.Add(s, reports, "nightly", "30 2 * * *", Report{}, &cron.ScheduleOptions{Zone: berlin})
//	err = s.Run(ctx) // in every instance
//
// # Why once
//
// There is no leader and no lock. A tick is a moment on the wall clock of the schedule's zone, so all
// instances compute the same ones; the ID of its job is made of the schedule's name and that moment (ID), and all
// instances submit it. The store takes the first and refuses the others as duplicates, also after the job has
// completed, for as long as its record is kept (ScheduleOptions.Retention).
//
// # Whose time
//
// With Notes it is the store's clock, asked for once a minute and carried on by the monotonic clock in between: an
// instance whose own clock is wrong fires when the others do. Without Notes it is this machine's clock, and the
// instance that is most ahead fires for all.
//
// # Ticks that were missed
//
// Notes keep, for each schedule, the last tick that was dealt with. A tick that could not be fired within
// ScheduleOptions.Late, because all instances were down, or the store was away, or the queue was full, is
// missed, and ScheduleOptions.Missed says what then: Skip, RunLatest or RunAll. The note is written after the
// job is enqueued, so that a crash in between repeats a submission, which the ID makes harmless, and loses
// nothing.
//
// # Goroutines
//
// Run owns one timer for all schedules, a goroutine for each schedule whose tick is being submitted, and
// at most one that exchanges notes; it waits for all of them before it returns. Nothing else runs.
package cron
