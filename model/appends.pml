/* The append side: producers with batches in doubt, late copies, records that expire, shutdown
 * with close; a queue that is bounded; a unique key that all jobs have; consumers reduced to taking and completing, so
 * that an ID can be used again. Steps and runs as in claims.pml.
 */
#ifndef NJ
#define NJ 2        /* IDs in common */
#endif
#ifndef NP
#define NP 2        /* producers; each submits B jobs, in order */
#endif
#define B 2
#ifndef WINDOW
#define WINDOW 0    /* the key is kept for a while from when a job is stored on */
#endif
#ifndef AFTER
#define AFTER 0     /* likewise from its completion on */
#endif
#ifndef NI
#define NI 3        /* identities that can be opened */
#endif
#ifndef NG
#define NG 1        /* late copies on the wire at once */
#endif
#ifndef MAXB
#define MAXB 2      /* bound of pending and scheduled */
#endif
#ifndef DELAYED
#define DELAYED 99  /* the ID that is appended with a delay */
#endif
#ifndef LOST
#define LOST 0      /* executed, and the answer is lost */
#endif
#ifndef LATE
#define LATE 0      /* a copy of a request is executed later, or never */
#endif
#ifndef EXPIRE
#define EXPIRE 0    /* a sender record reaches its TTL */
#endif
#ifndef CRASH
#define CRASH 0     /* a producer dies */
#endif
#ifndef SHUT
#define SHUT 0      /* a producer shuts down */
#endif
#ifndef GIVEUP
#define GIVEUP 0    /* T_doubt: a batch in doubt is asked about no more */
#endif
#ifndef PAUSE
#define PAUSE 0     /* an operator stops the intake, and lets it go on */
#endif
#ifndef CUT
#define CUT 0       /* the script ends in the middle */
#endif

/* Producer 0 submits IDs 0 and 1, producer 1 submits 1 and 2 (1 and 0, if there are two). */
#ifndef SAMEID
#define ID(q, k) (((q)+(k)) % NJ)
#else
#define ID(q, k) 0  /* everybody submits the same */
#endif

/* status */
#define PEND 1
#define PROC 2
#define SCHED 3

/* answers */
#define A_OK 1
#define A_UNKNOWN 2
#define A_OLD 3

/* what the caller is told of a submission */
#define WAITING 0
#define STORED 1
#define REFUSED 2   /* the ID is there already */
#define UNKNOWN 3
#define RETURNED 4  /* the caller's again: it will never run */
#define GONE 5      /* its process died: nobody is told */

/* The keys. */
byte pend[NJ];
bit  sched[NJ];
bit  ex[NJ];                            /* job:<id>, with */
byte st[NJ];                            /*   status */
byte aps[NJ], apn[NJ];                  /*   append: identity, number */
bit  rec[NI+1];                         /* sender:<s>, with */
byte last[NI+1], tk[NI+1], rf[NI+1];    /*   append, append_taken, append_refused (bits) */
byte nid;
#ifdef UNIQUE
byte kh;                                /* unique:<key>: holder, ID+1 */
bit  kw;                                /*   until_ms is ahead */
bit  kt;                                /*   a TTL */
bit  gw;                                /* the truth: a time for which the key is kept runs */
#endif

/* Producers. */
#define SEND 0
#define CLOSING 1
#define END 2
byte phase[NP];
byte cid[NP];                   /* identity; 0: one must be opened */
byte n[NP];                     /* number of the request */
byte base[NP], size[NP];         /* the request: submissions base .. base+len-1 */
bit  doubt[NP];                 /* sent without an answer */
byte told[NP*B];
#define TOLD(q,k) told[(q)*B+(k)]

/* The truth. */
byte times[NP*B];               /* how often a submission was stored */
byte stored, completed;
bit  dirty;                      /* a script ended in the middle: an append asked again may store again */
#define TIMES(q,k) times[(q)*B+(k)]

/* Late copies: of an append, of a close. */
#define G_APPEND 1
#define G_CLOSE 2
byte gk[NG], gi[NG], gn[NG], gq[NG], gb[NG], gl[NG];

byte f_lost = LOST, f_late = LATE, f_expire = EXPIRE, f_crash = CRASH, f_shut = SHUT, f_giveup = GIVEUP, f_cut = CUT, f_pause = PAUSE;
bit stopped;                    /* meta: pause_intake */

hidden byte ans, atk, arf, x, y, how, w, cut, room, seen, fresh, keyed, kept, z;
hidden byte halted;

#define NORMAL 0
#define LOSE 1

#if CUT > 0
#define DO(stmts) if :: !halted -> stmts; w++; halted = (w == cut); dirty = dirty | halted :: else fi
#define STOPPING if :: cut = 0 :: f_cut > 0 -> f_cut--; if :: cut = 1 :: cut = 2 :: cut = 3 fi fi
#else
#define DO(stmts) stmts
#define STOPPING skip
#endif

#if NJ == 1
#define BACKLOG (pend[0]+sched[0])
#elif NJ == 2
#define BACKLOG (pend[0]+pend[1]+sched[0]+sched[1])
#else
#define BACKLOG (pend[0]+pend[1]+pend[2]+sched[0]+sched[1]+sched[2])
#endif

#if NG == 1
#define WIRE (gk[0] == 0)
#define PUTLATE(kind,s,nn,q,b,l) gk[0] = kind; gi[0] = s; gn[0] = nn; gq[0] = q; gb[0] = b; gl[0] = l
#else
#define WIRE (gk[0] == 0 || gk[1] == 0)
#define PUTLATE(kind,s,nn,q,b,l) z = (gk[0] == 0 -> 0 : 1); gk[z] = kind; gi[z] = s; gn[z] = nn; gq[z] = q; gb[z] = b; gl[z] = l; z = 0
#endif

/* A store of a submission: once, and never after the caller was told that it is not stored. */
inline note_stored(q, k) {
	TIMES(q,k)++;
	stored++;
	assert(dirty || TIMES(q,k) == 1);
	assert(dirty || (TOLD(q,k) != REFUSED && TOLD(q,k) != RETURNED))
}

/* script: list_unique.lua, unique.lua */
#ifdef UNIQUE
#if NJ == 1
#define ANY_JOB ex[0]
#elif NJ == 2
#define ANY_JOB (ex[0] || ex[1])
#else
#define ANY_JOB (ex[0] || ex[1] || ex[2])
#endif
#define KEPT (kw || kh > 0 && ex[kh-1])
#ifdef MUT_KEYBATCH
#define IN_BATCH 0
#else
#define IN_BATCH (keyed > 0)
#endif
#else
#define KEPT 0
#define IN_BATCH 0
#endif

/* script: list_append.lua, list_sender.lua, list_base.lua, base.lua
 * Identity s, number nn; submissions b .. b+l-1 of producer q. Leaves ans, atk, arf. */
inline append(s, nn, q, b, l) {
	ans = A_OK; atk = 0; arf = 0;
	if
#ifdef MUT_IMPLICIT
	:: !rec[s] && nn == 0
#else
	:: !rec[s] -> ans = A_UNKNOWN
#endif
#ifndef MUT_NOSEQ
	:: rec[s] && nn < last[s] -> ans = A_OLD
	:: rec[s] && nn == last[s] -> atk = tk[s]; arf = rf[s]
#endif
	:: else ->
		room = MAXB - (BACKLOG > MAXB -> MAXB : BACKLOG);
		if :: stopped -> room = 0 :: else fi;
		seen = 0; fresh = 0; keyed = 0; kept = 0;
		/* decide first */
		for (x : 0 .. l-1) {
			y = ID(q, b+x);
			if
			:: seen & (1<<y) -> arf = arf | (1<<x)
			:: !(seen & (1<<y)) && ex[y] ->
				if
				:: aps[y] == s && apn[y] == nn -> seen = seen | (1<<y); keyed = y+1; kept = y+1
				:: else -> arf = arf | (1<<x)
				fi
			:: !(seen & (1<<y)) && !ex[y] && (IN_BATCH || KEPT) ->
#ifdef UNIQUE
				/* only a job that is there, or a time, keeps it from another one */
				assert(IN_BATCH || ANY_JOB || gw);
#endif
				arf = arf | (1<<x)
			:: else ->
				if :: room == 0 -> break :: else -> room-- fi;
				keyed = y+1; kept = y+1;
				seen = seen | (1<<y); fresh = fresh | (1<<x)
			fi;
			atk++
		}
		/* write afterwards: keys, entries, then jobs, how long keys are kept, then the number */
#ifdef UNIQUE
#ifdef MUT_KEPTFIRST
		if :: fresh > 0 -> DO(kh = keyed; kt = 0; kw = WINDOW) :: else fi;
#else
		if :: fresh > 0 -> DO(kh = keyed; kt = 0) :: else fi;
#endif
#endif
		DO(push_all(q, b, l));
		for (x : 0 .. l-1) {
			if
			:: fresh & (1<<x) -> DO(store(s, nn, q, b))
			:: else
			fi
		}
#if defined(UNIQUE) && WINDOW
		if :: kept > 0 && kh == kept -> DO(kw = 1; gw = 1) :: else fi;
#endif
		DO(remember(s, nn))
		assert(BACKLOG <= MAXB || dirty)
	fi;
	room = 0; seen = 0; fresh = 0; keyed = 0; kept = 0; x = 0; y = 0
}

inline push_all(q, b, l) {
	for (x : 0 .. l-1) {
		if
		:: (fresh & (1<<x)) && ID(q, b+x) != DELAYED -> pend[ID(q, b+x)]++
		:: (fresh & (1<<x)) && ID(q, b+x) == DELAYED -> sched[ID(q, b+x)] = 1
		:: else
		fi
	}
}

inline store(s, nn, q, b) {
	y = ID(q, b+x);
#ifdef UNIQUE
	assert(!ANY_JOB && (!gw || dirty));
	gw = WINDOW;
#endif
	ex[y] = 1; st[y] = (y == DELAYED -> SCHED : PEND);
	aps[y] = s; apn[y] = nn;
	note_stored(q, b+x)
}

inline remember(s, nn) {
	last[s] = nn; tk[s] = atk;
#ifdef MUT_DUPPOS
	rf[s] = 0
#else
	rf[s] = arf
#endif
#ifdef MUT_IMPLICIT
	rec[s] = 1
#endif
}

/* script: list_close.lua, list_sender.lua */
inline close(s, nn) {
	ans = A_OK; atk = 0; arf = 0;
	if
	:: !rec[s] -> ans = A_UNKNOWN
	:: rec[s] && nn < last[s] -> ans = A_OLD
	:: else ->
		if
		:: last[s] >= nn-1 -> atk = tk[s]; arf = rf[s]
		:: else
		fi;
		if :: last[s] < nn -> last[s] = nn; tk[s] = atk; rf[s] = arf :: else fi
	fi
}

/* Tell the callers of the submissions in the request what the answer says; rest: of those that
 * it did not take. */
inline tell(q, rest) {
	for (x : 0 .. size[q]-1) {
		if
		:: x < atk && !(arf & (1<<x)) -> TOLD(q,base[q]+x) = STORED; assert(TIMES(q,base[q]+x) == 1 || dirty && TIMES(q,base[q]+x) > 0)
		:: x < atk && (arf & (1<<x)) -> TOLD(q,base[q]+x) = REFUSED; assert(dirty || TIMES(q,base[q]+x) == 0)
		:: x >= atk && rest != WAITING -> TOLD(q,base[q]+x) = rest; assert(dirty || rest != RETURNED || TIMES(q,base[q]+x) == 0)
		:: else -> assert(dirty || TIMES(q,base[q]+x) == 0)
		fi
	}
	x = 0
}

/* Everything that is not told yet. */
inline tell_rest(q, from, what) {
	for (x : 0 .. B-1) {
		if
		:: x >= from && TOLD(q,x) == WAITING -> TOLD(q,x) = what; assert(dirty || what != RETURNED || TIMES(q,x) == 0)
		:: else
		fi
	}
	x = 0
}

inline ended(q) { phase[q] = END; cid[q] = 0; n[q] = 0; base[q] = B; size[q] = 0; doubt[q] = 0 }

/* The content of a request is made once: some of what waits, in order. */
#define COMPOSE if :: doubt[_pid] :: !doubt[_pid] -> size[_pid] = B-base[_pid] :: !doubt[_pid] && B-base[_pid] > 1 -> size[_pid] = 1 fi

/* FITS: an append would take something. */
#define FITS(q) (BACKLOG < MAXB && !stopped || ex[ID(q,base[q])] || KEPT)

active [NP] proctype Producer() {
#define q (_pid)
	do
	/* script: list_open.lua */
	:: atomic { phase[q] == SEND && cid[q] == 0 && base[q] < B && nid < NI -> d_step {
		nid++; rec[nid] = 1; cid[q] = nid; n[q] = 1; printf("%d opens %d\n", q, nid) } }

	/* script: list_append.lua. Sent, or sent again, and executed now. */
	:: atomic { phase[q] == SEND && cid[q] != 0 && base[q] < B && (doubt[q] || FITS(q)) ->
		COMPOSE; STOPPING;
		if :: how = NORMAL :: f_lost > 0 -> f_lost--; how = LOSE fi;
		d_step {
			append(cid[q], n[q], q, base[q], size[q]);
			printf("%d appends %d:%d, %d from %d, answer %d, taken %d, refused %d, lost %d\n", q, cid[q], n[q], size[q], base[q], ans, atk, arf, how == LOSE || cut > 0);
			if
			:: how == LOSE || cut > 0 -> doubt[q] = 1
			:: else ->
				if
				:: ans == A_OK ->
					tell(q, WAITING);
					base[q] = base[q]+atk; n[q]++
				:: else ->
					assert(ans != A_OLD);
					if
					:: doubt[q] ->
#ifdef MUT_UNKNOWN
						tell(q, RETURNED);
#else
						tell(q, UNKNOWN);
#endif
						base[q] = base[q]+size[q]
					:: else
					fi;
					cid[q] = 0; n[q] = 0
				fi;
				doubt[q] = 0; size[q] = 0;
				if :: base[q] == B -> ended(q) :: else fi
			fi;
			how = 0; w = 0; cut = 0; halted = 0; ans = 0; atk = 0; arf = 0
		} }
#if LATE > 0
	:: atomic { phase[q] == SEND && cid[q] != 0 && base[q] < B && f_late > 0 && WIRE -> COMPOSE; d_step {
		f_late--; doubt[q] = 1; PUTLATE(G_APPEND, cid[q], n[q], q, base[q], size[q]);
		printf("%d appends %d:%d, %d from %d, copy on the wire\n", q, cid[q], n[q], size[q], base[q]) } }
#endif
#if GIVEUP > 0
	:: atomic { phase[q] == SEND && doubt[q] && f_giveup > 0 -> d_step {
		f_giveup--; atk = 0; arf = 0; tell(q, UNKNOWN); printf("%d stays in doubt\n", q);
		base[q] = base[q]+size[q]; cid[q] = 0; n[q] = 0; doubt[q] = 0; size[q] = 0;
		if :: base[q] == B -> ended(q) :: else fi } }
#endif
#if SHUT > 0
	:: atomic { phase[q] == SEND && f_shut > 0 -> d_step {
		f_shut--; printf("%d shuts down\n", q);
		if
#ifndef MUT_NOCLOSE
		:: doubt[q] -> phase[q] = CLOSING; tell_rest(q, base[q]+size[q], RETURNED)
#endif
		:: else -> tell_rest(q, base[q], RETURNED); ended(q)
		fi } }
	/* script: list_close.lua */
	:: atomic { phase[q] == CLOSING ->
		if :: how = NORMAL :: f_lost > 0 -> f_lost--; how = LOSE fi;
		d_step {
			close(cid[q], n[q]+1);
			printf("%d closes %d:%d, answer %d, taken %d, refused %d, lost %d\n", q, cid[q], n[q]+1, ans, atk, arf, how);
			if
			:: how == LOSE
			:: else ->
				assert(ans != A_OLD);
				if
				:: ans == A_OK -> tell(q, RETURNED)
				:: else -> tell(q, UNKNOWN)
				fi;
				ended(q)
			fi;
			how = 0; ans = 0; atk = 0; arf = 0
		} }
	:: atomic { phase[q] == CLOSING && f_giveup > 0 -> d_step { f_giveup--; atk = 0; tell(q, UNKNOWN); ended(q); printf("%d ends in doubt\n", q) } }
#if LATE > 0
	:: atomic { phase[q] == CLOSING && f_late > 0 && WIRE -> d_step {
		f_late--; PUTLATE(G_CLOSE, cid[q], n[q]+1, q, 0, 0); printf("%d closes %d, copy on the wire\n", q, cid[q]) } }
#endif
#endif
#if CRASH > 0
	:: atomic { phase[q] != END && f_crash > 0 -> d_step { f_crash--; tell_rest(q, base[q], GONE); ended(q); printf("%d crashes\n", q) } }
#endif
	od
#undef q
}

/* A job of the queue, and whoever takes it: list_claim.lua and list_settle.lua, as far as an
 * append can tell. */
active [NJ] proctype Job() {
#define j (_pid-NP)
	do
	:: atomic { sched[j] -> d_step {
		sched[j] = 0;
		if :: ex[j] && st[j] == SCHED -> pend[j]++; st[j] = PEND :: else fi;
		printf("%d is due\n", j) } }
	:: atomic { pend[j] > 0 -> d_step {
		pend[j]--;
		if :: ex[j] && st[j] == PEND -> st[j] = PROC :: else fi;
		printf("%d is taken\n", j) } }
	:: atomic { ex[j] && st[j] == PROC -> STOPPING; d_step {
#ifdef UNIQUE
		if :: kh == j+1 -> DO(kw = kw | AFTER; gw = gw | AFTER) :: else fi;
#ifdef MUT_TTLFIRST
		if :: kh == j+1 -> DO(kt = kw) :: else fi;
#endif
#endif
		DO(ex[j] = 0; st[j] = 0; aps[j] = 0; apn[j] = 0; completed++);
#ifdef UNIQUE
		if :: kh == j+1 -> DO(kt = kw; kh = (kw -> kh : 0)) :: else fi;
#endif
		printf("%d is completed, cut %d\n", j, cut);
		w = 0; cut = 0; halted = 0 } }
	od
#undef j
}

#ifdef UNIQUE
/* The time for which the key is kept; it expires where it has a TTL, and is its holder's otherwise. */
#define TIME_OF_KEY :: atomic { s == 1 && (kw || gw) -> d_step { kw = 0; gw = 0; if :: kt -> kh = 0; kt = 0 :: else fi; printf("the key is kept no longer\n") } }
#else
#define TIME_OF_KEY
#endif

active [NI] proctype Sender() {
#define s (_pid-NP-NJ+1)
	do
	:: atomic { f_expire > 0 && rec[s] -> d_step { f_expire--; rec[s] = 0; last[s] = 0; tk[s] = 0; rf[s] = 0; printf("record of %d expires\n", s) } }
	TIME_OF_KEY
	od
#undef s
}

#if LATE > 0
inline clear_copy(g) { gk[g] = 0; gi[g] = 0; gn[g] = 0; gq[g] = 0; gb[g] = 0; gl[g] = 0; ans = 0; atk = 0; arf = 0; w = 0 }
active [NG] proctype Late() {
#define g (_pid-NP-NJ-NI)
	do
	:: atomic { gk[g] == G_APPEND -> d_step { append(gi[g], gn[g], gq[g], gb[g], gl[g]); printf("late append %d:%d, answer %d, taken %d\n", gi[g], gn[g], ans, atk); clear_copy(g) } }
	:: atomic { gk[g] == G_CLOSE -> d_step { close(gi[g], gn[g]); printf("late close %d:%d, answer %d\n", gi[g], gn[g], ans); clear_copy(g) } }
	:: atomic { gk[g] != 0 -> d_step { printf("the copy never arrives\n"); clear_copy(g) } }
	od
#undef g
}
#endif

#if PAUSE > 0
/* script: list_pause.lua */
active proctype Operator() {
	do
	:: atomic { f_pause > 0 && !stopped -> f_pause--; stopped = 1; printf("intake stopped\n") }
	:: atomic { stopped -> stopped = 0; printf("intake goes on\n") }
	od
}
#endif

/* When nothing can happen any more, everybody was told, and what was stored has completed. */
active proctype Watch() {
	timeout -> d_step {
		for (x : 0 .. NJ-1) { assert(!ex[x] && pend[x] == 0 && !sched[x]) }
		assert(stored == completed);
		for (x : 0 .. NP*B-1) { assert(told[x] != WAITING) }
		x = 0
	}
}
