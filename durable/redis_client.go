package durable

import (
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// poolSize is far more connections than the lanes ever use: the lanes and the gate hold the
// budget, and the pool must never make anybody wait. It is not larger because the pool
// allocates in proportion.
const poolSize = 4096

const (
	bufferSize    = 64 << 10
	idleTime      = 5 * time.Minute
	retriesOff    = -1 // as 0 would be the default of 3
	backoffOff    = -1
	oneDial       = 1
	noPipelines   = -1 // no pool of their own: there are none
	maxRedirects  = 3  // of MOVED and ASK: those were not executed
	markedFailing = 15 // seconds
	reloadEvery   = time.Minute
)

// ownOptions turns a copy of the user's options into those of our client. A client that was
// made has resolved its options: what was "disabled" reads 0 there and would turn back into a
// default in a copy, so every setting on which a promise rests is written out here. What
// remains theirs: where and how to connect, and as whom.
func ownOptions(o redis.Options, opts *RedisOptions, g *gate) *redis.Options {
	o.Dialer = g.dialer(o.Dialer)

	o.MaxRetries = retriesOff
	o.MinRetryBackoff = backoffOff
	o.MaxRetryBackoff = backoffOff
	o.DialerRetries = oneDial
	o.DialerRetryTimeout = time.Millisecond
	o.DialerRetryBackoff = nil

	o.DialTimeout = opts.DialTimeout
	o.ReadTimeout = max(opts.Timeout, drainTimeout) // of a command that blocks; all others end with their contexts
	o.WriteTimeout = opts.Timeout
	o.PoolTimeout = opts.Timeout
	o.ContextTimeoutEnabled = true

	o.PoolFIFO = false
	o.PoolSize = poolSize
	o.MaxConcurrentDials = poolSize
	o.MinIdleConns = 0
	o.MaxIdleConns = 0
	o.MaxActiveConns = 0
	o.PipelinePoolSize = noPipelines
	o.PipelineReadBufferSize = 0
	o.PipelineWriteBufferSize = 0
	o.AutoPipelineOptions = nil
	o.ReadBufferSize = bufferSize
	o.WriteBufferSize = bufferSize
	o.ConnMaxIdleTime = idleTime
	o.ConnMaxLifetime = max(o.ConnMaxLifetime, 0)
	o.ConnMaxLifetimeJitter = max(o.ConnMaxLifetimeJitter, 0)

	o.Limiter = nil // its verdicts would be about other traffic
	o.PushNotificationProcessor = nil
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.ClientSideCacheConfig = nil
	o.ClientSideCache = nil
	o.FailingTimeoutSeconds = markedFailing
	return &o
}

// ownClusterOptions is ownOptions for a cluster. Redirections stay on, as a command that was
// redirected was not executed; commands refuse every other repetition by themselves (once).
func ownClusterOptions(o redis.ClusterOptions, opts *RedisOptions, g *gate) *redis.ClusterOptions {
	dialer := o.Dialer
	if dialer == nil {
		dialer = redis.NewDialer(&redis.Options{DialTimeout: opts.DialTimeout, TLSConfig: o.TLSConfig})
	}
	o.Dialer = g.dialer(dialer)
	o.NewClient = nil

	o.MaxRedirects = maxRedirects
	o.ReadOnly = false
	o.RouteByLatency = false
	o.RouteRandomly = false
	o.DisableRoutingPolicies = true
	o.ShardPicker = nil
	o.ClusterStateReloadInterval = reloadEvery

	o.MaxRetries = retriesOff
	o.MinRetryBackoff = 10 * time.Millisecond // between redirections
	o.MaxRetryBackoff = 100 * time.Millisecond
	o.DialerRetries = oneDial
	o.DialerRetryTimeout = time.Millisecond
	o.DialerRetryBackoff = nil

	o.DialTimeout = opts.DialTimeout
	o.ReadTimeout = max(opts.Timeout, drainTimeout) // of a command that blocks; all others end with their contexts
	o.WriteTimeout = opts.Timeout
	o.PoolTimeout = opts.Timeout
	o.ContextTimeoutEnabled = true

	o.PoolFIFO = false
	o.PoolSize = poolSize
	o.MaxConcurrentDials = poolSize
	o.MinIdleConns = 0
	o.MaxIdleConns = 0
	o.MaxActiveConns = 0
	o.PipelinePoolSize = noPipelines
	o.PipelineReadBufferSize = 0
	o.PipelineWriteBufferSize = 0
	o.AutoPipelineOptions = nil
	o.ReadBufferSize = bufferSize
	o.WriteBufferSize = bufferSize
	o.ConnMaxIdleTime = idleTime
	o.ConnMaxLifetime = max(o.ConnMaxLifetime, 0)
	o.ConnMaxLifetimeJitter = max(o.ConnMaxLifetimeJitter, 0)

	o.PushNotificationProcessor = nil
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.FailingTimeoutSeconds = markedFailing
	return &o
}
