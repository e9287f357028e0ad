package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
)

// deny: keys have the wrong type, and the user may not run one command after the other. The start names
// what is missing; while it is missing no ID leaves all lists, and afterwards work goes on.
func deny(l *lab) {
	server := l.server()
	rdb := l.dial(server.Addr())
	commands := l.namesDenied(rdb)

	l.do(rdb, append([]any{"ACL", "SETUSER"}, fields(l.rule("app")+" >secret")...)...)
	for i := range 2 {
		l.spawn(role{Name: fmt.Sprint("worker", i), Addr: server.Addr(), User: "app", Pass: "secret", Workers: 6, Timeout: time.Second, SweepEvery: 300 * time.Millisecond})
	}
	producer := l.spawn(role{Name: "producer", Addr: server.Addr(), User: "app", Pass: "secret", Producers: 2, Rate: 250, Task: task{Work: 3}, WorkMax: 15, DelayMax: 400, Timeout: time.Second})
	l.goesOn(rdb, "the start")
	// One that starts meanwhile is refused by its first check, rightly.
	both := func() bool { return len(l.notes("worker0", noteStart)) > 0 && len(l.notes("worker1", noteStart)) > 0 }
	l.require(l.within(20*time.Second, both), "a worker does nothing")
	l.say("denying %d commands, one at a time", len(commands))
	for _, c := range commands {
		l.do(rdb, "ACL", "SETUSER", "app", "-"+c)
		l.pause(pick(l, 150*time.Millisecond, 2*time.Second))
		l.do(rdb, "ACL", "SETUSER", "app", "+"+c)
		l.pause(pick(l, 120*time.Millisecond, time.Second))
	}
	l.goesOn(rdb, "the denials")
	producer.term()
	producer.wait(time.Minute)
	l.drained(rdb, l.name, 30*time.Second)
	l.mistype(rdb)
	l.drained(rdb, l.name, 30*time.Second)
	l.dismiss()
	l.check(rdb, expectation{halves: true})
	l.figure("commands", len(commands))
}

func fields(text string) (words []any) {
	for w := range strings.FieldsSeq(text) {
		words = append(words, w)
	}
	return words
}

// rule is the line that the library gives for an ACL.
func (l *lab) rule(user string) string {
	store, err := durable.NewRedis(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), nil)
	l.must(err)
	return l.open(store).ACLRule(user)
}

// namesDenied sees that a check names each command that is missing, and returns those commands.
func (l *lab) namesDenied(rdb *redis.Client) (commands []string) {
	for w := range strings.FieldsSeq(l.rule("probe")) {
		if c, ok := strings.CutPrefix(w, "+"); ok && c != "info" {
			commands = append(commands, c)
		}
	}
	for _, c := range commands {
		l.do(rdb, append([]any{"ACL", "SETUSER"}, fields(l.rule("probe")+" >secret -"+c)...)...)
		user := redis.NewClient(&redis.Options{Addr: rdb.Options().Addr, Username: "probe", Password: "secret"})
		store, err := durable.NewRedis(user, nil)
		l.must(err)
		err = l.open(store).Check(l.ctx)
		l.require(err != nil && strings.Contains(strings.ToLower(err.Error()), " "+c), "a user without %s: %v", c, err)
		_ = store.Close()
		_ = user.Close()
		l.do(rdb, "ACL", "DELUSER", "probe")
	}
	return commands
}

// mistype puts a value of another type in the place of each key, while jobs are offered.
func (l *lab) mistype(rdb *redis.Client) {
	prefix := prefixOf(l.name)
	keys := l.engine().keys
	for i, key := range keys {
		aside := prefix + "probe:aside"
		there := rdb.Exists(l.ctx, prefix+key).Val() == 1
		if there {
			l.do(rdb, "RENAME", prefix+key, aside)
		}
		l.do(rdb, "SET", prefix+key, "of another type")
		judge := l.spawn(role{Name: fmt.Sprint("judge", i), Addr: rdb.Options().Addr, Producers: 1, Jobs: 5, Timeout: time.Second})
		judge.tell("check")
		named := func() bool {
			for _, e := range l.notes(judge.role.Name, "checked") {
				if strings.Contains(e.S, prefix+key) {
					return true
				}
			}
			return false
		}
		l.require(l.within(3*time.Second, named), "the error does not name %s: %v", key, l.notes(judge.role.Name, "checked"))
		l.do(rdb, "DEL", prefix+key)
		if there {
			l.do(rdb, "RENAME", aside, prefix+key)
		}
		judge.tell("check")
		judge.wait(20 * time.Second)
	}
	l.figure("keys", len(keys))
}
