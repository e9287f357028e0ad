/* The claim side: consumer processes with their identities and handlers, whoever sweeps, and
 * everything that can go wrong, each a bounded number of times (see runs.txt). The jobs are
 * enqueued; appends have a model of their own.
 *
 * Every alternative below is one step. Steps that would change nothing (an empty poll, a
 * request sent again that is not executed) are not steps, so that no run goes on for ever: a run
 * that ends without all jobs completed or dead is one in which something is stuck.
 *
 * A comment `script:` names what a step executes; scripts.sum notes what the model was read against.
 * outside: list_probe.lua, list_stats.lua, list_jobs.lua, list_lookup.lua, list_record.lua and
 * outside: list_filter.lua, list_engine.lua, list_cancels.lua, which change nothing.
 * outside: told.lua, list_adopt.lua, list_follow_open.lua, list_follower.lua, list_unfollow.lua, list_tell.lua: what is told
 * of jobs, by which no script is decided.
 * outside: list_limit.lua: limits are set before a run begins. What it makes due may be due here at any moment.
 */

/* How often each thing may happen in one run. */
#ifndef LOST
#define LOST 0      /* executed, and the answer is lost: the same request is sent again */
#endif
#ifndef LATE
#define LATE 0      /* a copy of a request is executed later, or never */
#endif
#ifndef CRASH
#define CRASH 0     /* a process dies, at any step, and is started again */
#endif
#ifndef FREEZE
#define FREEZE 0    /* a process stands still for as long as it takes, and goes on */
#endif
#ifndef FENCE
#define FENCE 0     /* a consumer cannot renew and gives its identity up */
#endif
#ifndef CLOCK
#define CLOCK 0     /* a lease ends although its consumer runs */
#endif
#ifndef FAIL
#define FAIL 0      /* a handler fails: retry */
#endif
#ifndef RELEASE
#define RELEASE 0   /* a claim is released */
#endif
#ifndef OTHER
#define OTHER 0     /* a run is snoozed, or fails for good */
#endif
#ifndef DISCARD
#define DISCARD 0   /* an answer to a claim is thrown away though the identity lives on */
#endif
#ifndef SHUT
#define SHUT 0      /* a process ends in order */
#endif
#ifndef PAUSE
#define PAUSE 0
#endif
#ifndef DEL
#define DEL 0       /* an operator deletes a job's hash */
#endif
#ifndef REUSE
#define REUSE 0     /* an ID that is gone is enqueued again */
#endif
#ifndef PUSH
#define PUSH 0      /* a foreign producer pushes an ID that is there already */
#endif
#ifndef PURGE
#define PURGE 0     /* an operator purges an ID from wherever it is */
#endif
#ifndef REDRIVE
#define REDRIVE 0   /* an operator sends a dead job back, or discards it */
#endif
#ifndef ZREM
#define ZREM 0      /* somebody deletes a registry entry */
#endif
#ifndef EXPIRE
#define EXPIRE 0    /* a sender record reaches its TTL, long after anybody asks under it */
#endif
#ifndef GIVEUP
#define GIVEUP 0    /* T_doubt: a settle in doubt is asked no more */
#endif
#ifndef CANCEL
#define CANCEL 0    /* somebody asks for the end of the job that has an ID now */
#endif
#ifndef AGED
#define AGED 0      /* the expiry of a job passes, wherever it is */
#endif
#ifndef AWAITED
#define AWAITED 0   /* a follower looks at a job that waits and has expired */
#endif
#ifndef CUT
#define CUT 0       /* a script ends in the middle */
#endif
#ifndef DEFER
#define DEFER 1     /* suspects put off in vain by a consumer that holds one */
#endif
#if CUT > 0
#define STOPS
#endif

#include "server.pml"

byte f_lost = LOST, f_late = LATE, f_crash = CRASH, f_freeze = FREEZE, f_fence = FENCE,
	f_clock = CLOCK, f_fail = FAIL, f_release = RELEASE, f_other = OTHER, f_discard = DISCARD, f_shut = SHUT,
	f_pause = PAUSE, f_del = DEL, f_reuse = REUSE, f_push = PUSH, f_purge = PURGE, f_redrive = REDRIVE, f_zrem = ZREM,
	f_expire = EXPIRE, f_giveup = GIVEUP, f_cut = CUT, f_defer = DEFER,
	f_cancel = CANCEL, f_aged = AGED, f_awaited = AWAITED;
bit unregistered;   /* somebody has deleted a registry entry */
bit meddled;        /* somebody has deleted a job */

/* A consumer process. */
#define OPEN 0
#define CLAIM 1     /* about to claim */
#define PARK 2      /* in BLMOVE */
#define BACK 3      /* paused: claims again later */
#define LEAVE 4     /* ends in order */
#define END 5
byte phase[NC];
byte cid[NC];                   /* its identity */
bit  frozen[NC];
byte cn[NC];                    /* number of the next claim */
bit  asking[NC];                /* that claim is in doubt: same number, same content */
byte asl[NC], ah[NC], anm[NC];  /* its content: slots, held, named */
bit  named[NC];                 /* the next claim names what is held */

/* An identity in the hands of its process. */
byte own[NI+1] = NOBODY;
byte sn[NI+1];                  /* number of the next settle */
byte flight[NI+1];              /* slot+1 whose settle is in doubt */
#define FREE 0
#define RUN 1       /* claimed: the handler runs, or is about to */
#define OVER 2      /* it has returned, and the store was told at least once */
byte hs[(NI+1)*S], hj[(NI+1)*S], hn[(NI+1)*S], hg[(NI+1)*S], ho[(NI+1)*S];

/* Late copies. */
#define G_CLAIM 1
#define G_SETTLE 2
#define G_BLMOVE 3
#define G_RENEW 4
#define G_LEAVE 5
#define G_CANCEL 6
byte gk[NG], gi[NG], gn[NG], ga[NG], gb[NG], gc[NG], gg[NG];

hidden byte how, k, z;


#define NORMAL 0
#define LOSE 1

#define SLOT(i,k) ((i)*S+(k))
#if S == 1
#define USED(i) (hs[SLOT(i,0)] > 0)
#else
#define USED(i) ((hs[SLOT(i,0)] > 0) + (hs[SLOT(i,1)] > 0))
#endif
#define IDLE(i) (S - USED(i))
#define UP(p) (!frozen[p])
#define OWNED(i) (own[i] < NC && UP(own[i]))
/* RUNS: a process runs under i and renews its lease */
#define RUNS(i) (own[i] < NC && !frozen[own[i]] && cid[own[i]] == i && phase[own[i]] != END && phase[own[i]] != OPEN)

/* WORTH: a claim would change something; a claim that only puts suspects off is bounded. */
#define HOLDS_SUSPECT(i) (sus[i] > 0 && tokc[sus[i]-1] == i)
#define READY(i,j) ((pend(j)+arr(j) > 0 || due[j]) && (cra[j] == 0 || !HOLDS_SUSPECT(i) || f_defer > 0))
#if NJ == 1
#define ANY_READY(i) (READY(i,0))
#else
#define ANY_READY(i) (READY(i,0) || READY(i,1))
#endif
#ifdef MUT_NOHELD
#define WORTH(i) ANY_READY(i)
#else
#define WORTH(i) (ANY_READY(i) || LLEN(i) > USED(i))
#endif
/* A claim that is answered EXPIRED changes nothing: the renewal comes first. */
#ifdef MUT_NOLEASE
#define MAY_ASK(i) 1
#else
#define MAY_ASK(i) (score[i] != EXPIRED)
#endif
/* Time passes as long as somebody can take what is due: else the job is put off for ever, each
 * time a little longer, which is no step. Likewise for a job that waits for its key, as long as that is taken. */
#ifdef LIMIT
#define PLACE(j) (!hm[j] || gcur[1-(j)] == 0 || f_defer > 0)
#else
#define PLACE(j) 1
#endif
#if NC == 1
#define MAY_BE_DUE(j) (cra[j] == 0 || f_defer > 0 || !HOLDS_SUSPECT(cid[0]))
#else
#define MAY_BE_DUE(j) (cra[j] == 0 || f_defer > 0 || !HOLDS_SUSPECT(cid[0]) || !HOLDS_SUSPECT(cid[1]))
#endif
#define HELD_ENTRY(j) (HELD_IN(1,j) || HELD_IN(2,j) || HELD_IN(NI,j))
#define HELD_IN(i,j) (score[i] != ABSENT && P(i,j) > 0)
#if NG == 1
#define WIRE (gk[0] == 0)
#define PUTLATE(kind,i,n,a,b,c,g) gk[0] = kind; gi[0] = i; gn[0] = n; ga[0] = a; gb[0] = b; gc[0] = c; gg[0] = g
#else
#define WIRE (gk[0] == 0 || gk[1] == 0)
#define PUTLATE(kind,i,n,a,b,c,g) z = (gk[0] == 0 -> 0 : 1); gk[z] = kind; gi[z] = i; gn[z] = n; ga[z] = a; gb[z] = b; gc[z] = c; gg[z] = g; z = 0
#endif

/* ORDER chooses which of two IDs a script meets first, and where it stops. */
#if NJ > 1
#define ORDER if :: first = 0 :: first = 1 fi
#else
#define ORDER skip
#endif
#if CUT > 0
#define STOPPING if :: cut = 0 :: f_cut > 0 -> f_cut--; if :: cut = 1 :: cut = 2 :: cut = 3 :: cut = 4 fi fi
#else
#define STOPPING skip
#endif

inline clear_slot(s) { hs[s] = FREE; hj[s] = 0; hn[s] = 0; hg[s] = 0; ho[s] = 0 }

/* An answer with claims is read: they go into free slots. */
inline deliver(c, n) {
	for (x : 0 .. NJ-1) {
		if
		:: gotm & (1<<x) ->
			k = 0;
			do
			:: k < S && hs[SLOT(c,k)] != FREE -> k++
			:: else -> break
			od;
			assert(k < S);
			hs[SLOT(c,k)] = RUN; hj[SLOT(c,k)] = x+1; hn[SLOT(c,k)] = TOKN(n, x);
			/* What is answered is claimed at this moment. */
			assert(ex[x] && tokc[x] == c && tokn[x] == TOKN(n, x) && gcur[x] != 0);
			hg[SLOT(c,k)] = gcur[x]
		:: else
		fi
	}
	k = 0; x = 0
}

/* The identity is given up: handlers go on until they notice, and a new identity is opened. */
inline give_up(p) {
	phase[p] = (phase[p] == LEAVE -> END : OPEN);
	forget_claim(p);
	cn[p] = 0
}

inline forget_claim(p) { asking[p] = 0; asl[p] = 0; ah[p] = 0; anm[p] = 0; named[p] = 0 }

inline crash(p) {
	for (y : 1 .. NI) {
		if
		:: own[y] == p ->
			own[y] = NOBODY; flight[y] = 0; sn[y] = 0; tru[y] = 0;
			for (x : 0 .. S-1) { clear_slot(SLOT(y,x)) }
		:: else
		fi
	}
	phase[p] = OPEN; frozen[p] = 0; cid[p] = 0; cn[p] = 0;
	forget_claim(p)
}

/* The content of a claim is made once. */
inline ask(p) {
	if
	:: !asking[p] ->
		asl[p] = IDLE(cid[p]); ah[p] = USED(cid[p]); anm[p] = 0;
		if
		:: named[p] ->
			anm[p] = 4;
			for (x : 0 .. S-1) { if :: hs[SLOT(cid[p],x)] != FREE -> anm[p] = anm[p] | (1<<x) :: else fi }
		:: else
		fi
	:: else
	fi
}

/* script: list_settle.lua. Sent, or sent again, and executed now. */
inline tell(i, kk) {
	z = SLOT(i,kk);
	settle(i, sn[i], (hj[z]-1), hn[z], hg[z], ho[z]);
	printf("%d settles %d with %d, answer %d, lost %d\n", i, hj[z]-1, ho[z], ans, how == LOSE || cut > 0);
	if
	:: how == LOSE || cut > 0 -> flight[i] = kk+1
	:: else ->
		assert(ans != A_OLD);
		if
		:: ans == A_UNKNOWN
		:: else ->
			/* A request sent again gets the answer of its execution. */
			assert(ans == tru[i] || tru[i] == ANY);
			/* Nothing is stale or gone for a consumer whose lease never ended. */
			assert(meddled || score[i] != LIVE || tru[i] == ANY || (ans != A_STALE && ans != A_GONE))
		fi;
		clear_slot(z); flight[i] = 0; sn[i]++; tru[i] = 0;
		if :: own[i] < NC && cid[own[i]] != i && USED(i) == 0 -> sn[i] = 0 :: else fi
	fi;
	z = 0; how = 0; check()
}

inline clear_copy(g) { gk[g] = 0; gi[g] = 0; gn[g] = 0; ga[g] = 0; gb[g] = 0; gc[g] = 0; gg[g] = 0 }

active [NC] proctype Consumer() {
#define p (_pid)
#define c cid[_pid]
	do
	/* script: list_open.lua */
	:: atomic { UP(p) && phase[p] == OPEN && nid < NI -> d_step {
		open(p); cid[p] = nid; sn[nid] = 1; cn[p] = 1; phase[p] = CLAIM;
		printf("%d opens %d\n", p, nid) } }

	/* script: list_claim.lua. Sent, or sent again, and executed now. */
	:: atomic { UP(p) && phase[p] == CLAIM && MAY_ASK(c) && (asking[p] || IDLE(c) > 0 && (WORTH(c) || !ANY_READY(c))) -> ORDER; STOPPING;
		if
		:: how = NORMAL
		:: f_lost > 0 -> f_lost--; how = LOSE
		fi;
		d_step {
			ask(p);
			claim(c, cn[p], asl[p], ah[p], anm[p]);
			printf("%d claims %d:%d, answer %d, jobs %d, lost %d\n", p, c, cn[p], ans, gotm, how == LOSE || cut > 0);
			if
			:: how == LOSE || cut > 0 ->
				asking[p] = 1;
#ifdef MUT_SKIP
				forget_claim(p); cn[p]++
#endif
			:: else ->
				if
				:: ans == A_J -> deliver(c, cn[p])
				:: ans == A_E -> phase[p] = PARK
				:: ans == A_P -> phase[p] = BACK
				:: ans == A_M
				:: ans == A_R
				:: ans == A_EXPIRED
				:: ans == A_FENCED || ans == A_UNKNOWN
				fi;
				if
				:: ans == A_FENCED || ans == A_UNKNOWN -> give_up(p)
				:: ans == A_EXPIRED -> asking[p] = 1
				:: else -> cn[p]++; forget_claim(p); named[p] = (ans == A_R)
				fi
			fi;
			how = 0; check()
		} }

#if LATE > 0
	/* Sent, and its copy is executed later or never; the client goes on in doubt. What names
	 * claims is not kept as a copy. */
	:: atomic { UP(p) && phase[p] == CLAIM && !named[p] && anm[p] == 0 && (asking[p] || IDLE(c) > 0) && f_late > 0 && WIRE -> d_step {
		f_late--; ask(p); asking[p] = 1;
		PUTLATE(G_CLAIM, c, cn[p], asl[p], ah[p], 0, 0);
		printf("%d claims %d:%d, copy on the wire\n", p, c, cn[p]) } }
#endif

	/* script: list_renew.lua. A renewal that finds the lease as it should be is no step. */
	:: atomic { UP(p) && phase[p] != OPEN && phase[p] != END && score[c] == EXPIRED -> d_step {
		renew(c); printf("%d renews %d\n", p, c) } }
	:: atomic { UP(p) && phase[p] != OPEN && phase[p] != LEAVE && phase[p] != END && (score[c] == FENCED || score[c] == ABSENT) -> d_step {
		renew(c); give_up(p); printf("%d learns that %d is fenced\n", p, c) } }
#if LATE > 0
	:: atomic { UP(p) && phase[p] != OPEN && phase[p] != END && f_late > 0 && WIRE -> d_step {
		f_late--; PUTLATE(G_RENEW, c, 0, 0, 0, 0, 0); printf("%d renews %d, copy on the wire\n", p, c) } }
#endif

	/* BLMOVE pending arriving: whatever ends it, the next step is a claim. */
	:: atomic { UP(p) && phase[p] == PARK && PENDING > 0 -> ORDER; d_step {
#if NJ > 1
		y = (pend(first) > 0 -> first : 1-first);
#else
		y = 0;
#endif
		if
#ifdef MUT_DIRECT
		:: pend(y) > 0 -> pend(y)--; P(c,y) = P(c,y)+1
#else
		:: pend(y) > 0 -> pend(y)--; arr(y)++
#endif
		:: else
		fi;
		phase[p] = CLAIM;
		printf("%d: BLMOVE moved %d\n", p, y); check() } }
#ifndef MUT_NOCLAIM
	:: atomic { UP(p) && phase[p] == PARK && WORTH(c) -> d_step { phase[p] = CLAIM; printf("%d: BLMOVE ended with nothing\n", p) } }
#endif
#ifdef MUT_NOCLAIM
	/* the answer is lost: another BLMOVE */
	:: atomic { UP(p) && phase[p] == PARK && f_lost > 0 && pend(0) > 0 -> d_step { f_lost--; pend(0)--; arr(0)++; printf("%d: BLMOVE moved 0, answer lost\n", p) } }
#endif
#if LATE > 0
	:: atomic { UP(p) && phase[p] == PARK && f_late > 0 && WIRE -> d_step {
		f_late--; PUTLATE(G_BLMOVE, c, 0, 0, 0, 0, 0); phase[p] = CLAIM; printf("%d: BLMOVE on the wire\n", p) } }
#endif
	:: atomic { UP(p) && phase[p] == BACK && !paused -> phase[p] = CLAIM }

#if SHUT > 0
	/* Orderly end: no more claims, then leave until it is done. */
	:: atomic { UP(p) && f_shut > 0 && phase[p] != OPEN && phase[p] < LEAVE -> d_step {
		f_shut--; phase[p] = LEAVE; forget_claim(p);
		printf("%d shuts down\n", p) } }
#ifndef MUT_NOLEAVE
	/* script: list_leave.lua */
	:: atomic { UP(p) && phase[p] == LEAVE && USED(c) == 0 -> ORDER; STOPPING; d_step {
		leave(c);
		if :: ans == A_E && cut == 0 -> phase[p] = END; own[c] = ENDED; sn[c] = 0; tru[c] = 0 :: else fi;
		printf("%d leaves %d, answer %d\n", p, c, ans); check() } }
#if LATE > 0
	:: atomic { UP(p) && phase[p] == LEAVE && USED(c) == 0 && f_late > 0 && WIRE -> d_step {
		f_late--; PUTLATE(G_LEAVE, c, 0, 0, 0, 0, 0); printf("%d leaves %d, copy on the wire\n", p, c) } }
#endif
#else
	:: atomic { UP(p) && phase[p] == LEAVE && USED(c) == 0 -> d_step { phase[p] = END; own[c] = ENDED } }
#endif
#endif

#if CRASH > 0
	:: atomic { f_crash > 0 && phase[p] != END -> d_step { f_crash--; crash(p); printf("%d crashes\n", p); check() } }
#endif
#if FREEZE > 0
	:: atomic { UP(p) && f_freeze > 0 && phase[p] != OPEN && phase[p] != END -> d_step { f_freeze--; frozen[p] = 1; printf("%d freezes\n", p) } }
	:: atomic { !UP(p) -> d_step { frozen[p] = 0; printf("%d thaws\n", p) } }
#endif
#if FENCE > 0
	:: atomic { UP(p) && f_fence > 0 && phase[p] != OPEN && phase[p] < LEAVE -> d_step { f_fence--; printf("%d gives %d up\n", p, c); give_up(p) } }
#endif
	od
#undef p
#undef c
}

#ifndef MUT_RECLEASE
/* T_rec > T_doubt: a record ends only when nobody can ask under it any more, or whoever could
 * has stood still. */
#define MAY_EXPIRE(i) (score[i] != LIVE && !RUNS(i) && !(OWNED(i) && USED(i) > 0))
#else
#define MAY_EXPIRE(i) (score[i] != LIVE)
#endif

/* One slot of identity i: a handler that may end at any moment, and its outcome, told until it is
 * answered. */
#define TELLS(k) (hs[SLOT(i,k)] != FREE && OWNED(i) && (flight[i] == 0 || flight[i] == k+1) && !KILLS(k))
#define OUTCOME(k) \
	if \
	:: ho[SLOT(i,k)] != 0 \
	:: ho[SLOT(i,k)] == 0 -> ho[SLOT(i,k)] = O_DONE \
	:: ho[SLOT(i,k)] == 0 && f_fail > 0 -> f_fail--; ho[SLOT(i,k)] = O_RETRY \
	:: ho[SLOT(i,k)] == 0 && f_release > 0 -> f_release--; ho[SLOT(i,k)] = O_RELEASE \
	:: ho[SLOT(i,k)] == 0 && f_other > 0 -> f_other--; if :: ho[SLOT(i,k)] = O_DEAD :: ho[SLOT(i,k)] = O_SNOOZE fi \
	fi; \
	hs[SLOT(i,k)] = OVER
#define HANDLER(k) \
	:: atomic { TELLS(k) -> \
		OUTCOME(k); STOPPING; if :: how = NORMAL :: f_lost > 0 -> f_lost--; how = LOSE fi; \
		d_step { tell(i, k) } } \
	:: atomic { f_late > 0 && WIRE && TELLS(k) -> OUTCOME(k); d_step { \
		f_late--; flight[i] = k+1; \
		PUTLATE(G_SETTLE, i, sn[i], hj[SLOT(i,k)]-1, hn[SLOT(i,k)], ho[SLOT(i,k)], hg[SLOT(i,k)]); \
		printf("%d settles %d, copy on the wire\n", i, hj[SLOT(i,k)]-1) } } \
	:: atomic { f_discard > 0 && hs[SLOT(i,k)] == RUN && RUNS(i) -> d_step { f_discard--; printf("%d throws the answer with %d away\n", i, hj[SLOT(i,k)]-1); clear_slot(SLOT(i,k)) } } \
	:: atomic { f_giveup > 0 && flight[i] == k+1 && OWNED(i) -> d_step { \
		f_giveup--; printf("%d gives up telling about %d\n", i, hj[SLOT(i,k)]-1); \
		clear_slot(SLOT(i,k)); flight[i] = 0; sn[i]++; tru[i] = 0 } } \
	DIES(k)

#ifdef KILLER
/* One job kills every process that runs it. */
#define KILLS(k) (hj[SLOT(i,k)] == KILLER+1)
#define DIES(k) :: atomic { hs[SLOT(i,k)] == RUN && KILLS(k) && OWNED(i) -> d_step { printf("%d kills %d\n", KILLER, own[i]); k0 = own[i]; crash(k0); k0 = 0; check() } }
hidden byte k0;
#else
#define KILLS(k) 0
#define DIES(k)
#endif

#ifdef MUT_SWEEPOLD
#define JOBS (NC+NI+1)
#else
#define JOBS (NC+NI)
#endif

active [NI] proctype Identity() {
#define i (_pid-NC+1)
	do
	HANDLER(0)
#if S > 1
	HANDLER(1)
#endif
	/* The lease of whoever does not renew it ends. */
	:: atomic { score[i] == LIVE && !RUNS(i) -> d_step { score[i] = EXPIRED; printf("lease of %d ends\n", i) } }
#if CLOCK > 0
	:: atomic { score[i] == LIVE && RUNS(i) && f_clock > 0 -> d_step { f_clock--; score[i] = EXPIRED; printf("lease of %d ends too early\n", i) } }
#endif
	/* script: list_sweep.lua */
	:: atomic { (score[i] == EXPIRED || score[i] == FENCED) -> ORDER; STOPPING; d_step {
		sweep(i); printf("sweep of %d, stopped %d\n", i, halted); check() } }
#ifndef NOSEARCH
	:: atomic { score[i] == ABSENT && i <= nid && LLEN(i) > 0 -> d_step { register(i); printf("list of %d found and registered\n", i) } }
#endif
#if EXPIRE > 0
	:: atomic { f_expire > 0 && rec[i] && MAY_EXPIRE(i) -> d_step {
		f_expire--; rec[i] = 0; cl_n[i] = 0; cl_st[i] = 0; se_n[i] = 0; se_code[i] = 0; leaving[i] = 0; sus[i] = 0; charge[i] = 0;
		printf("record of %d expires\n", i) } }
#endif
#if ZREM > 0
	:: atomic { f_zrem > 0 && score[i] != ABSENT -> d_step { f_zrem--; score[i] = ABSENT; unregistered = 1; printf("%d is taken out of the registry\n", i); check() } }
#endif
	od
#undef i
}

#if defined(MUT_SWEEPOLD)
/* A sweeper that looks first and acts upon what it saw. */
byte seen_c, seen_j;
active proctype OldSweeper() {
#define c seen_c
#define j (seen_j-1)
	do
	:: atomic { seen_j == 0 && score[1] == EXPIRED && P(1,0) > 0 -> seen_c = 1; seen_j = 1; printf("a sweeper looks\n") }
	:: atomic { seen_j > 0 -> d_step {
		printf("the sweeper acts\n");
		pend(j)++; st[j] = PEND; UNTOKEN(j); gcur[j] = 0;
		if :: P(c,j) > 0 -> P(c,j) = P(c,j)-1 :: else fi;
		seen_j = 0; seen_c = 0; check() } }
	od
#undef c
#undef j
}
#endif

#if CANCEL > 0
#define LIVES_AGAIN(j) life[j]++
#else
#define LIVES_AGAIN(j) skip
#endif

#ifdef UNIQUE
bit doubt[NJ];      /* its append is to be sent again */
/* One job with the key. Refused is only who finds another one that is there. */
inline enqueue(j) {
	if
	:: ex[j] -> ans = A_OK; doubt[j] = 0 /* by this very request */
	:: !ex[j] && TAKEN(j) -> ans = A_GONE; assert(KEEPS(1-(j))); doubt[j] = 0
	:: else ->
		ans = A_OK;
#ifndef MUT_KEYLATE
		DO(kh = (j)+1);
#endif
		DO(pend(j)++);
		DO(ex[j] = 1; st[j] = PEND; LIVES_AGAIN(j));
#ifdef MUT_KEYLATE
		DO(kh = (j)+1);
#endif
		doubt[j] = halted
	fi
}
#ifdef MUT_REDRIVEKEY
#define REDRIVES(j) 1
#else
#define REDRIVES(j) (!TAKEN(j))
#endif
#define TAKES_KEY(j) DO(kh = (j)+1)
#else
#define REDRIVES(j) 1
#define TAKES_KEY(j) skip
#endif

active [NJ] proctype Job() {
#define j (_pid-JOBS)
	do
	:: atomic { sched[j] && !due[j] && MAY_BE_DUE(j) && PLACE(j) -> d_step { due[j] = 1; printf("%d is due\n", j) } }
#if DEL > 0
	:: atomic { f_del > 0 && ex[j] -> d_step {
		f_del--; meddled = 1; FORGET(j); dead[j] = 0;
		printf("%d is deleted\n", j); check() } }
#endif
#if REUSE > 0
	/* script: list_append.lua: the rest of it is in appends.pml. One that ended in the middle is sent again. */
#ifdef UNIQUE
	:: atomic { doubt[j] || f_reuse > 0 && !ex[j] -> if :: doubt[j] :: else -> f_reuse-- fi; STOPPING; d_step {
		enqueue(j); printf("%d is enqueued, answer %d, stopped %d\n", j, ans, halted); check() } }
#else
	:: atomic { f_reuse > 0 && !ex[j] -> d_step {
		f_reuse--; pend(j)++; ex[j] = 1; st[j] = PEND; LIVES_AGAIN(j); printf("%d is enqueued again\n", j); check() } }
#endif
#endif
#if REDRIVE > 0
	/* script: list_dead.lua */
	:: atomic { f_redrive > 0 && dead[j] && REDRIVES(j) -> STOPPING; d_step {
		f_redrive--;
		if
		:: ex[j] && st[j] == DEAD ->
			TAKES_KEY(j);
			gcanc[j] = 0;
			DO(pend(j)++); DO(st[j] = PEND; att[j] = 0; cra[j] = 0; failed[j] = 0; UNTOKEN(j))
		:: else
		fi;
		DO(dead[j] = 0);
		printf("%d is sent back, stopped %d\n", j, halted); check() } }
	:: atomic { f_redrive > 0 && dead[j] -> d_step {
		f_redrive--;
		if :: ex[j] && st[j] == DEAD -> ERASE(j) :: else fi;
		dead[j] = 0;
		printf("%d is discarded\n", j); check() } }
#endif
#if PURGE > 0
	/* script: list_purge.lua: one entry of each place, with the job if it is what the entry says */
	:: atomic { f_purge > 0 && pend(j)+arr(j) > 0 -> d_step {
		f_purge--; meddled = 1;
		if :: arr(j) > 0 -> arr(j)-- :: else -> pend(j)-- fi;
		if :: ex[j] && st[j] == PEND && tokc[j] == 0 -> ERASE(j) :: else fi;
		printf("%d is purged from pending\n", j); check() } }
	:: atomic { f_purge > 0 && sched[j] -> d_step {
		f_purge--; meddled = 1; sched[j] = 0; due[j] = 0;
		if :: ex[j] && st[j] == SCHED -> ERASE(j) :: else fi;
		printf("%d is purged from scheduled\n", j); check() } }
	:: atomic { f_purge > 0 && HELD_ENTRY(j) -> d_step {
		f_purge--; meddled = 1;
		for (x : 1 .. NI) {
			if
			:: P(x,j) > 0 && score[x] != ABSENT ->
				P(x,j) = P(x,j)-1;
				if :: ex[j] && st[j] == PROC && tokc[j] == x -> key_ended(j); ERASE(j) :: else fi;
				break
			:: else
			fi
		}
		printf("%d is purged from processing\n", j); check() } }
#endif
#if AGED > 0
	:: atomic { f_aged > 0 && ex[j] && !aged[j] && !KEPT(j) && st[j] != DEAD -> d_step { f_aged--; aged[j] = 1; printf("the expiry of %d passes\n", j) } }
	/* script: list_follow.lua (overdue) */
	:: atomic { f_awaited > 0 && ex[j] && aged[j] && WAITING(j) -> STOPPING; d_step {
		f_awaited--; finish(j, EXPD, 0, 0); DO(sched[j] = 0; due[j] = 0);
		printf("%d has expired, stopped %d\n", j, halted); check() } }
#endif
#ifdef RETAIN
	/* the TTL of a record; script: list_retain.lua (trim_completed) */
	:: atomic { compl[j] -> d_step {
		if :: ex[j] && KEPT(j) -> ERASE(j) :: else fi;
		compl[j] = 0; printf("the record of %d is forgotten\n", j); check() } }
#endif
#if PUSH > 0
	:: atomic { f_push > 0 -> d_step { f_push--; pend(j)++; printf("%d is pushed once more\n", j); check() } }
#endif
	od
#undef j
}

#if LATE > 0
active [NG] proctype Late() {
#define g (_pid-JOBS-NJ)
	do
	:: atomic { gk[g] == G_CLAIM -> ORDER; d_step { claim(gi[g], gn[g], ga[g], gb[g], 0); printf("late claim %d:%d, answer %d, jobs %d\n", gi[g], gn[g], ans, gotm); clear_copy(g); check() } }
	:: atomic { gk[g] == G_SETTLE -> d_step { settle(gi[g], gn[g], ga[g], gb[g], gg[g], gc[g]); printf("late settle of %d, answer %d\n", ga[g], ans); clear_copy(g); check() } }
	:: atomic { gk[g] == G_RENEW -> d_step { renew(gi[g]); printf("late renewal of %d\n", gi[g]); clear_copy(g); check() } }
	:: atomic { gk[g] == G_LEAVE -> ORDER; d_step { leave(gi[g]); printf("late leave of %d\n", gi[g]); clear_copy(g); check() } }
#if CANCEL > 0
	:: atomic { gk[g] == G_CANCEL -> d_step { cancel(ga[g], gb[g]); printf("late cancel of %d, life %d, answer %d\n", ga[g], gb[g], ans); clear_copy(g); check() } }
#endif
	:: atomic { gk[g] == G_BLMOVE && PENDING > 0 -> ORDER; d_step {
#if NJ > 1
		y = (pend(first) > 0 -> first : 1-first);
#else
		y = 0;
#endif
#ifdef MUT_DIRECT
		pend(y)--; P(gi[g],y) = P(gi[g],y)+1;
#else
		pend(y)--; arr(y)++;
#endif
		printf("late BLMOVE moved %d\n", y); clear_copy(g); check() } }
	:: atomic { gk[g] != 0 -> d_step { printf("the copy never arrives\n"); clear_copy(g) } }
	od
#undef g
}
#endif

#if CANCEL > 0
/* Somebody who knows the job that has an ID now, and asks for its end until that is answered. */
byte xid, xlife;
active proctype Canceller() {
	do
	:: atomic { f_cancel > 0 && xid == 0 && ex[0] -> f_cancel--; xid = 1; xlife = life[0] }
#if NJ > 1
	:: atomic { f_cancel > 0 && xid == 0 && ex[1] -> f_cancel--; xid = 2; xlife = life[1] }
#endif
	/* script: list_cancel.lua. Sent, or sent again, and executed now. */
	:: atomic { xid > 0 -> STOPPING; if :: how = NORMAL :: f_lost > 0 -> f_lost--; how = LOSE fi; d_step {
		x = xid-1;
		cancel(x, xlife);
		printf("cancel of %d, life %d, answer %d, lost %d\n", x, xlife, ans, how == LOSE || cut > 0);
		if
		:: how == LOSE || cut > 0
		:: else ->
			/* It is told that it ended, or that its end was asked for. */
			assert(!ex[x] || life[x] != xlife || KEPT(x) || st[x] == DEAD || (ans == A_RUN && st[x] == PROC && mark[x]));
			xid = 0; xlife = 0
		fi;
		x = 0; how = 0; check() } }
#if LATE > 0
	:: atomic { xid > 0 && f_late > 0 && WIRE -> d_step {
		f_late--; PUTLATE(G_CANCEL, 0, 0, xid-1, xlife, 0, 0); printf("cancel of %d, life %d, copy on the wire\n", xid-1, xlife) } }
#endif
	od
}
#endif

#if PAUSE > 0
/* script: list_pause.lua */
active proctype Operator() {
	do
	:: atomic { f_pause > 0 && !paused -> f_pause--; paused = 1; printf("paused\n") }
	:: atomic { paused -> paused = 0; printf("resumed\n") }
	od
}
#endif

/* When nothing can happen any more, every job has ended and nothing is left anywhere. */
active proctype Watch() {
	timeout -> d_step {
		for (x : 0 .. NJ-1) {
			assert(!ex[x] || st[x] == DEAD);
			assert(!compl[x]);
			assert(pend(x)+arr(x)+sched[x] == 0);
			for (y : 1 .. NI) { assert(P(y,x) == 0) }
		}
#ifdef UNIQUE
		assert(!doubt[0] && !doubt[1]);
#endif
#ifdef KILLER
		assert(ex[KILLER] && st[KILLER] == DEAD && cra[KILLER] == MAXCR);
		assert(!ex[1-KILLER]);
#endif
		x = 0; y = 0;
	}
}
