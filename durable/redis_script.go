package durable

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// script is a Lua script as the server sees it.
type script struct {
	verb string // what it is called as: append, claim …
	text string
	sha  string
	// always sends the text: for the one script that tries what else is permitted.
	always bool
	// replicated has the answer wait for replicas, where they are asked for.
	replicated bool
}

// includeMark begins a line that stands for a whole file.
const includeMark = "--#include "

// readyFragment is included by this name, and is lua/<engine>_ready.lua.
const readyFragment = "ready"

// baseFragment is included by this name by scripts of every engine; it is what all scripts of the engine begin with.
const baseFragment = "queue_base"

// loadScript reads lua/<name>.lua and what it includes, for the engine that it is named after.
func loadScript(name string) *script {
	engine, _, _ := strings.Cut(name, "_")
	return loadScriptFor(engine, name)
}

// loadScriptFor reads lua/<name>.lua and what it includes, for an engine. A script that is not there is a
// mistake in the build: it panics.
func loadScriptFor(engine, name string) *script {
	text := luaText(engine, name)
	_, verb, _ := strings.Cut(name, "_")
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return &script{verb: verb, text: text, sha: hex.EncodeToString(sum[:])}
}

// luaText is a file with all that it includes.
func luaText(engine, name string) string {
	switch {
	case name == readyFragment:
		name = engine + "_" + readyFragment
	case name == baseFragment && engine == "stream":
		name = "stream_base"
	case name == baseFragment:
		name = "list_base"
	}
	var b strings.Builder
	for line := range strings.Lines(luaFile(name)) {
		if fragment, ok := strings.CutPrefix(strings.TrimSpace(line), includeMark); ok {
			b.WriteString(luaText(engine, fragment))
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}

func luaFile(name string) string {
	text, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(fmt.Sprintf("durable: script %s is not embedded: %v", name, err))
	}
	return string(text)
}

// once is a command that nobody sends a second time: not the client's retries, which are off
// anyhow, nor the loop in which a cluster client follows redirections.
type once struct{ *redis.Cmd }

// NoRetry tells go-redis so.
func (once) NoRetry() bool { return true }

// send executes the command. A cluster client that does not reach a node with such a command
// goes on believing in that node, for as long as its picture of the cluster lasts: it is told to
// ask who has taken over.
func (c once) send(ctx context.Context, client redis.UniversalClient) error {
	err := client.Process(ctx, c)
	if cluster, ok := client.(*redis.ClusterClient); ok && err != nil {
		if text, answered := asReply(err); !answered || strings.HasPrefix(text, "CLUSTERDOWN") {
			cluster.ReloadState(ctx)
		}
	}
	return err
}

// exec executes a script in a lane. The answer of one that waits for replicas ends with how many there were.
func (q *queue) exec(ctx context.Context, in *lane, s *script, keys []string, args []any) (any, error) {
	r := q.redis
	if !s.replicated || r.opts.Replicas == 0 {
		return s.run(keys, args, func(words []any) (any, error) {
			cmd := redis.NewCmd(ctx, words...)
			err := in.send(ctx, q, cmd)
			return cmd.Val(), err
		})
	}
	if err := in.enter(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotExecuted, err)
	}
	defer in.leave()
	client, _ := r.hold(q)
	var had int64
	got, err := s.run(keys, args, func(words []any) (got any, err error) {
		got, had, err = r.replicate(ctx, client, keys[0], redis.NewCmd(ctx, words...))
		return got, err
	})
	if answer, ok := got.([]any); ok {
		return append(answer, had), err
	}
	return got, err
}

// replicate executes a command with a WAIT behind it on the same connection, as WAIT is about what its
// connection has written. It takes half of the time that is left, at most; without an answer of its own
// there is no replica that is known of.
func (r *Redis) replicate(ctx context.Context, client redis.UniversalClient, key string, cmd *redis.Cmd) (any, int64, error) {
	limit := r.opts.ReplicaWait
	if by, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(by)/2)
	}
	cluster, _ := client.(*redis.ClusterClient)
	if cluster != nil {
		node, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return nil, 0, fmt.Errorf("%w: no node for the queue's keys: %w", ErrNotExecuted, err)
		}
		client = node
	}
	pipe := client.Pipeline()
	wait := redis.NewIntCmd(ctx, "wait", r.opts.Replicas, max(limit.Milliseconds(), 1))
	_ = pipe.Process(ctx, cmd)  // queued
	_ = pipe.Process(ctx, wait) // queued
	_, _ = pipe.Exec(ctx)       // each has its own error
	if cluster != nil && cmd.Err() != nil {
		cluster.ReloadState(ctx) // it may live elsewhere now
	}
	return cmd.Val(), wait.Val(), cmd.Err()
}

// run executes the script by its hash, and in full when the server does not know it, in
// which case nothing was executed before.
func (s *script) run(keys []string, args []any, send func(words []any) (any, error)) (any, error) {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, "evalsha", s.sha, len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	words = append(words, args...)
	if s.always {
		words[0], words[1] = "eval", s.text
	}
	got, err := send(words)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		words[0], words[1] = "eval", s.text
		got, err = send(words)
	}
	if err != nil {
		return nil, err
	}
	return got, nil
}
