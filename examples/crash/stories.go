package main

import "context"

// killed is the first story: a worker dies with a job in its hands.
func (d *drill) killed(ctx context.Context) error {
	d.begin("order-1", "1. The worker is killed in the middle of the job")
	a, consumerA, err := d.takes(ctx, "worker A")
	if err != nil {
		return err
	}
	defer a.Close()
	b, consumerB, err := d.worker(ctx, "worker B")
	if err != nil {
		return err
	}
	defer b.Close()

	a.Kill()
	d.note("kill -9 %d: worker A is gone and could say nothing", a.PID)
	s, err := d.look(ctx)
	if err != nil {
		return err
	}
	d.Claim(s.by(consumerA), "%s: after the kill the job is still under the dead worker's name", d.id)
	d.note("still in %s, whose lease has %v to go", s.place, d.leaseLeft(ctx, consumerA))

	// From here on nobody does anything but the library, in worker B: it finds the lease over,
	// takes the job back to the queue, and claims it when the delay after a crash is over.
	s, err = d.until(ctx, func(s sight) bool { return s.by(consumerB) })
	if err != nil {
		return err
	}
	d.Claim(s.deliveries == "2", "%s: worker B took it over by itself, deliveries = %s", d.id, s.deliveries)
	if _, err := b.Expect(ctx, saysHolding+d.id); err != nil {
		return err
	}
	if err := d.completes(ctx, b); err != nil {
		return err
	}
	if err := b.HangUp(); err != nil {
		return err
	}
	if err := b.Wait(ctx); err != nil { // so that worker C will be alone
		return err
	}
	return d.effects()
}

// frozen is the second story: a worker sleeps through the end of its lease, and wakes up
// in the belief that the job is its own.
func (d *drill) frozen(ctx context.Context) error {
	d.begin("order-2", "2. The worker is frozen for longer than its lease")
	c, _, err := d.takes(ctx, "worker C")
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Freeze(); err != nil {
		return err
	}
	d.note("kill -STOP %d: worker C stands still", c.PID)
	heir, consumer, err := d.worker(ctx, "worker D")
	if err != nil {
		return err
	}
	defer heir.Close()
	mine := func(s sight) bool { return s.by(consumer) }
	before, err := d.until(ctx, mine)
	if err != nil {
		return err
	}
	d.Claim(before.deliveries == "2", "%s: worker D took it over by itself, deliveries = %s", d.id, before.deliveries)
	if _, err := heir.Expect(ctx, saysHolding+d.id); err != nil {
		return err
	}

	if err := c.Thaw(); err != nil {
		return err
	}
	d.note("kill -CONT %d: worker C goes on as if nothing had happened", c.PID)
	cause, err := c.Expect(ctx, saysLost+d.id)
	if err != nil {
		return err
	}
	d.note("the library in it notices how late it is: the context of its handler has ended%s", cause)
	if err := c.Tell("go on"); err != nil {
		return err
	}
	if _, err := c.Expect(ctx, saysStale+d.id); err != nil {
		return err
	}
	d.stale++
	d.note("its handler did not look, and returned nil; the completion was refused, for its token is void")
	after, err := d.until(ctx, mine)
	if err != nil {
		return err
	}
	n := changed(before.record, after.record)
	d.Claim(n == 0, "%s: fields of the job's record that the late completion changed: %d of %d", d.id, n, len(after.record))
	if err := d.completes(ctx, heir); err != nil {
		return err
	}
	return d.effects()
}
