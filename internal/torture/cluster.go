package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// cluster is a Redis Cluster of three masters, and a replica of the one that has the queue.
type cluster struct {
	l     *lab
	nodes []*node
	slot  int64
}

type node struct {
	*redisproc.Server
	rdb   *redis.Client
	probe *redis.Client // without patience
	id    string
	bus   int
}

const slots = 16384

// cluster starts one; the queue is that of the experiment.
func (l *lab) cluster() *cluster {
	c := &cluster{l: l}
	for range 4 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		l.must(err)
		n := &node{bus: listener.Addr().(*net.TCPAddr).Port}
		l.must(listener.Close())
		n.Server = l.server("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", strconv.Itoa(n.bus),
			"--cluster-node-timeout", "1500", "--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0",
			"--cluster-replica-validity-factor", "0")
		n.rdb = l.dial(n.Addr())
		n.probe = redis.NewClient(&redis.Options{Addr: n.Addr(), MaxRetries: -1, DialerRetries: 1, ReadTimeout: time.Second})
		l.later(func() { _ = n.probe.Close() })
		n.id = fmt.Sprint(l.do(n.rdb, "CLUSTER", "MYID"))
		c.nodes = append(c.nodes, n)
	}
	for i := range 3 {
		l.do(c.nodes[i].rdb, "CLUSTER", "ADDSLOTSRANGE", i*slots/3, (i+1)*slots/3-1)
		l.do(c.nodes[i].rdb, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, n := range c.nodes[1:] {
		l.do(n.rdb, "CLUSTER", "MEET", "127.0.0.1", c.nodes[0].Port(), c.nodes[0].bus)
	}
	c.settled("ok")
	c.slot, _ = l.do(c.nodes[0].rdb, "CLUSTER", "KEYSLOT", prefixOf(l.name)).(int64)
	l.do(c.nodes[3].rdb, "CLUSTER", "REPLICATE", c.owner().id)
	l.must(c.within("the replica did not come up", func() bool {
		return strings.Contains(c.nodes[3].rdb.Info(l.ctx, "replication").Val(), "master_link_status:up")
	}))
	return c
}

func (c *cluster) within(what string, ok func() bool) error {
	if c.l.within(30*time.Second, ok) {
		return nil
	}
	return errors.New(what)
}

// settled waits until every node says so of the cluster, and knows of all others.
func (c *cluster) settled(state string) {
	c.l.must(c.within("the cluster did not settle", func() bool {
		for _, n := range c.nodes {
			info := n.rdb.Do(c.l.ctx, "CLUSTER", "INFO").String()
			if !strings.Contains(info, "cluster_state:"+state) || !strings.Contains(info, fmt.Sprint("cluster_known_nodes:", len(c.nodes))) {
				return false
			}
		}
		return true
	}))
}

// owner is the node that serves the queue's slot; the living ones are asked.
func (c *cluster) owner() *node {
	var owner *node
	c.l.must(c.within("nobody serves the slot", func() bool {
		for _, n := range c.nodes {
			err := n.probe.Do(c.l.ctx, "EXISTS", prefixOf(c.l.name)).Err()
			role := n.probe.Info(c.l.ctx, "replication").Val()
			if err == nil && strings.Contains(role, "role:master") {
				owner = n
				return true
			}
		}
		return false
	}))
	return owner
}

func (c *cluster) addrs() (all []string) {
	for _, n := range c.nodes {
		all = append(all, n.Addr())
	}
	return all
}

// move moves the queue's slot to another master, key by key, as redis-cli --cluster reshard does.
//
// A master that had the slot a moment ago may still have a BLMOVE parked, for up to a second. The entries that come would
// be served to it, into a list that is yet to come, and MIGRATE would refuse that one with BUSYKEY. Nobody who reshards is so
// quick; we are, and so we wait.
func (c *cluster) move(from, to *node) {
	l, slot := c.l, c.slot
	l.must(c.within("clients are still parked where the slot is to go", func() bool {
		return strings.Contains(to.rdb.Info(l.ctx, "clients").Val(), "blocked_clients:0\r\n")
	}))
	l.do(to.rdb, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.id)
	l.do(from.rdb, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)
	for {
		keys, _ := l.do(from.rdb, "CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)
		if len(keys) == 0 {
			break
		}
		words := append([]any{"MIGRATE", "127.0.0.1", to.Port(), "", 0, 10000, "KEYS"}, keys...)
		l.do(from.rdb, words...)
	}
	for _, n := range []*node{to, from} {
		l.do(n.rdb, "CLUSTER", "SETSLOT", slot, "NODE", to.id)
	}
	for _, n := range c.nodes {
		_ = n.rdb.Do(l.ctx, "CLUSTER", "SETSLOT", slot, "NODE", to.id).Err() // replicas refuse, and learn it by gossip
	}
}
